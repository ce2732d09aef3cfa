package clients

import (
	"encoding/json"
	"errors"
	"io"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// runGoOpenAI runs the cases with sashabaranov/go-openai, as clients/run.js does in Node.
func runGoOpenAI(s *e2e.Site) []seen {
	config := goopenai.DefaultConfig("sk-unused")
	config.BaseURL = s.URL + "/v1"
	client := goOpenAI{s, goopenai.NewClientWithConfig(config)}
	var all []seen
	for way, ask := range map[string]goOpenAIAsk{"CreateChatCompletion": client.whole, "CreateChatCompletionStream": client.stream} {
		all = append(all, seeCases(way, func(c clientCase) (seen, error) { return goOpenAIRounds(c, ask) }, describeGoOpenAIError)...)
	}
	return all
}

type goOpenAI struct {
	site   *e2e.Site
	client *goopenai.Client
}

type goOpenAIAsk func(goopenai.ChatCompletionRequest) (goopenai.ChatCompletionResponse, error)

func (c goOpenAI) whole(request goopenai.ChatCompletionRequest) (goopenai.ChatCompletionResponse, error) {
	return c.client.CreateChatCompletion(e2e.Context(c.site.T), request)
}

// stream adds up the chunks, since the client has no accumulator.
func (c goOpenAI) stream(request goopenai.ChatCompletionRequest) (goopenai.ChatCompletionResponse, error) {
	request.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	var choice goopenai.ChatCompletionChoice
	answer := goopenai.ChatCompletionResponse{}
	stream, err := c.client.CreateChatCompletionStream(e2e.Context(c.site.T), request)
	if err != nil {
		return answer, err
	}
	defer stream.Close()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			answer.Choices = []goopenai.ChatCompletionChoice{choice}
			return answer, nil
		}
		if err != nil {
			return answer, err
		}
		if chunk.Usage != nil {
			answer.Usage = *chunk.Usage
		}
		for _, part := range chunk.Choices {
			addGoOpenAIDelta(&choice, part)
		}
	}
}

func addGoOpenAIDelta(choice *goopenai.ChatCompletionChoice, part goopenai.ChatCompletionStreamChoice) {
	message := &choice.Message
	message.Role += part.Delta.Role
	message.Content += part.Delta.Content
	message.ReasoningContent += part.Delta.ReasoningContent
	for _, call := range part.Delta.ToolCalls {
		if *call.Index == len(message.ToolCalls) {
			message.ToolCalls = append(message.ToolCalls, call)
		} else {
			message.ToolCalls[*call.Index].Function.Arguments += call.Function.Arguments
		}
	}
	if part.FinishReason != "" {
		choice.FinishReason = part.FinishReason
	}
}

func goOpenAIRounds(c clientCase, ask goOpenAIAsk) (seen, error) {
	request := goOpenAIRequest(c)
	return rounds(c, func() (goopenai.ChatCompletionResponse, error) { return ask(request) }, sawGoOpenAI, func(first goopenai.ChatCompletionResponse) {
		message := first.Choices[0].Message
		request.Messages = append(request.Messages, message)
		for _, call := range message.ToolCalls {
			request.Messages = append(request.Messages, goopenai.ChatCompletionMessage{
				Role: goopenai.ChatMessageRoleTool, ToolCallID: call.ID, Content: foundFor(call.Function.Arguments),
			})
		}
	})
}

func goOpenAIRequest(c clientCase) goopenai.ChatCompletionRequest {
	request := goopenai.ChatCompletionRequest{
		Model:    goopenai.GPT5,
		Messages: []goopenai.ChatCompletionMessage{{Role: goopenai.ChatMessageRoleUser, Content: c.Prompt}},
	}
	if c.Tools {
		request.Tools = []goopenai.Tool{{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
			Name: "localSearch", Description: "Search the vault",
			Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
		}}}
	}
	if c.Choose {
		request.ToolChoice = goopenai.ToolChoice{Type: goopenai.ToolTypeFunction, Function: goopenai.ToolFunction{Name: "localSearch"}}
	}
	if c.Form {
		request.ResponseFormat = &goopenai.ChatCompletionResponseFormat{
			Type: goopenai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &goopenai.ChatCompletionResponseFormatJSONSchema{
				Name: "form", Strict: true, Schema: json.RawMessage(formSchema),
			},
		}
	}
	if c.JSON {
		request.ResponseFormat = &goopenai.ChatCompletionResponseFormat{Type: goopenai.ChatCompletionResponseFormatTypeJSONObject}
	}
	return request
}

func sawGoOpenAI(c clientCase, answer goopenai.ChatCompletionResponse) seen {
	choice, usage := answer.Choices[0], answer.Usage
	saw := seen{
		Content:   choice.Message.Content,
		Reasoning: choice.Message.ReasoningContent,
		Finish:    string(choice.FinishReason),
		Usage: seenUsage{
			Input:     int64(usage.PromptTokens),
			Cached:    int64(usage.PromptTokensDetails.CachedTokens),
			Output:    int64(usage.CompletionTokens),
			Reasoning: int64(usage.CompletionTokensDetails.ReasoningTokens),
			Total:     int64(usage.TotalTokens),
		},
	}
	for _, call := range choice.Message.ToolCalls {
		saw.Calls = append(saw.Calls, seenCall{call.Function.Name, parsed(call.Function.Arguments)})
	}
	if c.object != nil {
		saw.Object = parsed(saw.Content)
	}
	return saw
}

func describeGoOpenAIError(err error) *seenError {
	var apiErr *goopenai.APIError
	if !errors.As(err, &apiErr) {
		return &seenError{Class: "error", Message: err.Error()}
	}
	code, _ := apiErr.Code.(string)
	return &seenError{Class: "APIError", Status: apiErr.HTTPStatusCode, Code: code, Message: apiErr.Message}
}
