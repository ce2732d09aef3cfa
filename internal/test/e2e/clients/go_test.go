package clients

import (
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// runGo runs the cases with the official Go SDK, like clients/run.js for the others.
func runGo(s *e2e.Site) []seen {
	var all []seen
	for way, ask := range map[string]goAsk{"New": s.NewCompletion, "NewStreaming": s.NewStreaming} {
		all = append(all, seeCases(way, func(c clientCase) (seen, error) { return goRounds(c, ask) }, describeGoError)...)
	}
	return all
}

type goAsk func(openai.ChatCompletionNewParams) (*openai.ChatCompletion, error)

// rounds asks and, if the case says so, asks again with what answer has added: the results of the calls.
func rounds[A any](c clientCase, ask func() (A, error), saw func(clientCase, A) seen, answer func(first A)) (seen, error) {
	first, err := ask()
	if err != nil {
		return seen{}, err
	}
	if !c.Results {
		return saw(c, first), nil
	}
	answer(first)
	second, err := ask()
	if err != nil {
		return seen{}, err
	}
	last := saw(c, second)
	last.Calls = saw(c, first).Calls
	return last, nil
}

// foundFor returns the result of a call with these arguments.
func foundFor(arguments string) string { return "found: " + gjson.Get(arguments, "query").Str }

func goRounds(c clientCase, ask goAsk) (seen, error) {
	params := goRequest(c)
	return rounds(c, func() (*openai.ChatCompletion, error) { return ask(params) }, sawGo, func(first *openai.ChatCompletion) {
		message := first.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage(foundFor(call.Function.Arguments), call.ID))
		}
	})
}

func goRequest(c clientCase) openai.ChatCompletionNewParams {
	params := e2e.UserSays(c.Prompt)
	if c.Tools {
		params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("localSearch")}
	}
	if c.Choose {
		params.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(
			openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "localSearch"})
	}
	if c.Form {
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "form", Strict: openai.Bool(true), Schema: json.RawMessage(formSchema),
			},
		}
	}
	if c.JSON {
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return params
}

const formSchema = `{
	"type": "object",
	"properties": {"title": {"type": "string"}, "count": {"type": "number"}},
	"required": ["title", "count"],
	"additionalProperties": false
}`

func sawGo(c clientCase, completion *openai.ChatCompletion) seen {
	choice, usage := completion.Choices[0], completion.Usage
	saw := seen{
		Content: choice.Message.Content,
		Finish:  choice.FinishReason,
		Usage: seenUsage{
			Input:     usage.PromptTokens,
			Cached:    usage.PromptTokensDetails.CachedTokens,
			Output:    usage.CompletionTokens,
			Reasoning: usage.CompletionTokensDetails.ReasoningTokens,
			Total:     usage.TotalTokens,
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

// parsed returns the value of a JSON text, or the text if it is not JSON.
func parsed(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return text
	}
	return value
}

func describeGoError(err error) *seenError {
	var apiErr *openai.Error
	if errors.As(err, &apiErr) {
		return &seenError{
			Class: "Error", Status: apiErr.StatusCode, Code: apiErr.Code, Message: apiErr.Message,
			RetryAfter: apiErr.Response.Header.Get("Retry-After"),
		}
	}
	return &seenError{Class: "error", Message: err.Error()}
}
