package chat

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// head is what a completion and a chunk begin with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// completion is a CreateChatCompletionResponse.
type completion struct {
	head
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

// choice is a choice of a completion.
type choice struct {
	Index        int                `json:"index"`
	Message      answer             `json:"message"`
	LogProbs     *struct{}          `json:"logprobs"` // always null
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

// answer is a ChatCompletionResponseMessage.
type answer struct {
	Role         string     `json:"role"`
	Content      *string    `json:"content"`
	Refusal      *string    `json:"refusal"`     // always null
	Annotations  []struct{} `json:"annotations"` // always empty
	Reasoning    string     `json:"reasoning_content,omitempty"`
	FunctionCall *function  `json:"function_call,omitempty"`
	ToolCalls    []call     `json:"tool_calls,omitempty"`
}

// call is a ChatCompletionMessageToolCall.
type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// function is what a call calls, and with what.
type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chunk is a CreateChatCompletionStreamResponse.
type chunk struct {
	head
	Choices []chunkChoice `json:"choices"`
	// Usage is a *usage. It is absent if the client has not asked for it, and null in
	// all chunks but the last if it has.
	Usage any `json:"usage,omitempty"`
}

// chunkChoice is the choice of a chunk.
type chunkChoice struct {
	Index        int                `json:"index"`
	Delta        delta              `json:"delta"`
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

// delta is a ChatCompletionStreamResponseDelta. Those with a piece of a text are
// appended by hand, see [Stream].
type delta struct {
	Role         string          `json:"role,omitempty"`
	Content      json.RawMessage `json:"content,omitempty"`
	FunctionCall *function       `json:"function_call,omitempty"`
	ToolCalls    []callStart     `json:"tool_calls,omitempty"`
}

// callStart is the first ChatCompletionMessageToolCallChunk of a call.
type callStart struct {
	Index int `json:"index"`
	call
}

// usage is a CompletionUsage.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newUsage(u codexrpc.Usage) *usage {
	w := &usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens}
	w.PromptDetails.CachedTokens = u.CachedInputTokens
	w.CompletionDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}
