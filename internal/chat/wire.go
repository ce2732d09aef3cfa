package chat

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta has what all chunks of a stream, or the body of an answer that is not streamed, share.
type Meta struct {
	prompt.Settings
	ID      string // of the completion, for example "chatcmpl-…"
	Created int64  // Unix time in seconds
	// ServiceTier and Fingerprint are service_tier and system_fingerprint; empty: left out.
	ServiceTier, Fingerprint string
	// Place returns Codex's model and release, of which the Fingerprint is made. Nil: Fingerprint is used.
	Place func() (model, version string)
	Field string // the name of the request's field with the conversation, for errors
	// Forms has the form of each custom tool's calls, see [Request.Forms].
	Forms map[string]ToolForm
}

// completion is the body of an answer that is not streamed (CreateChatCompletionResponse).
type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`

	ServiceTier       string `json:"service_tier,omitempty"`
	SystemFingerprint string `json:"system_fingerprint,omitempty"`

	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

// choice is a choice of a body.
type choice struct {
	Index        int                `json:"index"`
	Message      *message           `json:"message"`
	LogProbs     json.RawMessage    `json:"logprobs"` // always null
	FinishReason *turn.FinishReason `json:"finish_reason"`
}

// message is the message in a body (ChatCompletionResponseMessage), or the delta in a chunk
// (ChatCompletionStreamResponseDelta).
type message struct {
	Role         string          `json:"role,omitempty"`
	Content      any             `json:"content,omitempty"`    // a *string, or null; nil: the member is absent
	Refusal      json.RawMessage `json:"refusal,omitempty"`    // null in a body, absent in a delta
	Annotations  []annotation    `json:"annotations,omitzero"` // a body without annotations has an empty list; nil: the member is absent
	Reasoning    string          `json:"reasoning_content,omitempty"`
	FunctionCall *function       `json:"function_call,omitempty"`
	ToolCalls    []call          `json:"tool_calls,omitempty"`
}

// call is a tool call in a body (ChatCompletionMessageToolCall,
// ChatCompletionMessageCustomToolCall) or in a chunk (ChatCompletionMessageToolCallChunk).
type call struct {
	Index    *int      `json:"index,omitempty"` // in a chunk: the index of the call in the choice; in a body: nil
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Function *function `json:"function,omitempty"`
	Custom   *custom   `json:"custom,omitempty"`
}

// newCall returns a call. text is the arguments of a function, or the input of a custom tool.
func newCall(id, name, text string, form ToolForm) call {
	if form == customForm {
		return call{ID: id, Type: "custom", Custom: &custom{name, text}}
	}
	return call{ID: id, Type: "function", Function: &function{name, text}}
}

// custom is a called custom tool. In a stream, the name and the input are in separate chunks.
type custom struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"`
}

// function is a called function: its name and its arguments.
type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// null is the value of members that must be present but have no value.
var null = json.RawMessage("null")

// usage is the JSON of the used tokens (CompletionUsage).
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	// Estimated is true if this server has estimated a part of the tokens, because the turn was
	// interrupted. It is not a member of OpenAI's API.
	Estimated bool `json:"estimated,omitempty"`
}

type annotation struct {
	Type     string   `json:"type"`
	Citation citation `json:"url_citation"`
}

// citation is a place in the choice's text that cites a web page, from character Start to End.
type citation struct {
	End   int    `json:"end_index"`
	Start int    `json:"start_index"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

// annotations returns the citations of a message of the model. In out, their indexes count from the
// beginning of the message. annotations adds out.Part, the place of the message in the choice's text.
func annotations(out *turn.Output) (all []annotation) {
	var decoded []struct {
		Type string
		citation
	}
	_ = json.Unmarshal([]byte(out.Text), &decoded) // annotations that cannot be read are left out
	for _, g := range decoded {
		if g.Type == "url_citation" {
			g.Start, g.End = g.Start+out.Part, g.End+out.Part
			all = append(all, annotation{g.Type, g.citation})
		}
	}
	return all
}
