package e2e

import (
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Answer is a finished chat completion, streamed or not.
type Answer struct {
	Content string
	Calls   []openai.ChatCompletionMessageToolCallUnion
	Finish  string
	Usage   openai.CompletionUsage
}

// Complete sends a request with the official SDK, without streaming.
func (s *Site) Complete(params openai.ChatCompletionNewParams) (Answer, error) {
	return s.answer(s.NewCompletion(params))
}

// Stream sends a request with the official SDK, with streaming and its accumulator.
func (s *Site) Stream(params openai.ChatCompletionNewParams) (Answer, error) {
	return s.answer(s.NewStreaming(params))
}

func (s *Site) answer(completion *openai.ChatCompletion, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	if len(completion.Choices) == 0 {
		s.T.Fatal("an answer without a choice")
	}
	choice := completion.Choices[0]
	return Answer{choice.Message.Content, choice.Message.ToolCalls, choice.FinishReason, completion.Usage}, nil
}

// UserSays returns a request with one user message.
func UserSays(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "gpt-5",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

// SearchTool returns a tool with this name.
func SearchTool(name string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name:        name,
		Description: openai.String("Search the vault"),
		Parameters: shared.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"query": map[string]any{"type": "string"}},
			"required":   []string{"query"},
		},
	})
}

// CheckUsage compares the usage of a completion with that of the model.
func CheckUsage(t *testing.T, got openai.CompletionUsage, want scriptedmodel.Usage) {
	t.Helper()
	have := scriptedmodel.Usage{
		Input:     int(got.PromptTokens),
		Cached:    int(got.PromptTokensDetails.CachedTokens),
		Output:    int(got.CompletionTokens),
		Reasoning: int(got.CompletionTokensDetails.ReasoningTokens),
	}
	if have != want || got.TotalTokens != int64(want.Input+want.Output) {
		t.Errorf("usage %+v, total %d; want %+v", have, got.TotalTokens, want)
	}
}

// NewCompletion sends a request with the official SDK, without streaming.
func (s *Site) NewCompletion(params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	client := s.Client()
	return client.Chat.Completions.New(Context(s.T), params)
}

// NewStreaming streams a request with the official SDK and its accumulator, on any goroutine.
func (s *Site) NewStreaming(params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	client := s.Client()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(Context(s.T), params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return nil, errors.New("the accumulator refuses " + stream.Current().RawJSON())
		}
	}
	return &acc.ChatCompletion, stream.Err()
}
