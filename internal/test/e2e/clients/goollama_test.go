package clients

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// runGoOllama runs the cases with Ollama's own client, like clients/run.js for the clients in Node.
func runGoOllama(s *e2e.Site) []seen {
	at, err := url.Parse(s.URL)
	must.OK(s.T, err)
	client := goOllama{s, api.NewClient(at, http.DefaultClient)}
	var all []seen
	for way, stream := range map[string]bool{"Chat": false, "Chat, stream": true} {
		all = append(all, seeCases(way, func(c clientCase) (seen, error) { return client.rounds(c, stream) }, describeGoOllamaError)...)
	}
	return all
}

type goOllama struct {
	site   *e2e.Site
	client *api.Client
}

func (o goOllama) rounds(c clientCase, stream bool) (seen, error) {
	request := &api.ChatRequest{Model: "gpt-5", Stream: &stream, Messages: []api.Message{{Role: "user", Content: c.Prompt}}}
	if c.Tools {
		if err := json.Unmarshal([]byte(searchTool), &request.Tools); err != nil {
			return seen{}, err
		}
	}
	if c.Form {
		request.Format = json.RawMessage(formSchema)
	}
	if c.JSON {
		request.Format = json.RawMessage(`"json"`)
	}
	return rounds(c, func() (api.ChatResponse, error) { return o.ask(request) }, sawOllama, func(first api.ChatResponse) {
		request.Messages = append(request.Messages, first.Message)
		for _, call := range first.Message.ToolCalls {
			query, _ := call.Function.Arguments.Get("query")
			request.Messages = append(request.Messages, api.Message{Role: "tool", ToolName: call.Function.Name, ToolCallID: call.ID, Content: "found: " + query.(string)})
		}
	})
}

// ask adds up the answers of a stream, since the client does not.
func (o goOllama) ask(request *api.ChatRequest) (all api.ChatResponse, err error) {
	err = o.client.Chat(e2e.Context(o.site.T), request, func(r api.ChatResponse) error {
		before := all.Message
		all = r
		all.Message.Content = before.Content + r.Message.Content
		all.Message.Thinking = before.Thinking + r.Message.Thinking
		all.Message.ToolCalls = append(before.ToolCalls, r.Message.ToolCalls...)
		return nil
	})
	return all, err
}

const searchTool = `[{"type":"function","function":{"name":"localSearch","description":"Search the vault",
		"parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}}}]`

func sawOllama(c clientCase, r api.ChatResponse) seen {
	saw := seen{Content: r.Message.Content, Reasoning: r.Message.Thinking, Finish: r.DoneReason}
	for _, call := range r.Message.ToolCalls {
		saw.Calls = append(saw.Calls, seenCall{call.Function.Name, call.Function.Arguments.ToMap()})
	}
	saw.Usage = seenUsage{Input: int64(r.PromptEvalCount), Output: int64(r.EvalCount), Total: int64(r.PromptEvalCount + r.EvalCount)}
	if c.Form || c.JSON {
		_ = json.Unmarshal([]byte(saw.Content), &saw.Object) // an object that is missing is seen
	}
	return saw
}

func describeGoOllamaError(err error) *seenError {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return &seenError{Class: "StatusError", Status: status.StatusCode, Message: status.ErrorMessage}
	}
	return &seenError{Class: "error", Message: err.Error()}
}

// The expectations of clients that do not show all that they get.

// agentsOmit: the Agents SDK has no finish reasons.
func agentsOmit(want *seen) { want.Finish = "" }

// langGraphOmits: the graph has no finish reason of a message that it streamed.
func langGraphOmits(want *seen) {
	if want.Way == "stream" {
		want.Finish = ""
	}
}

// mastraOmits: Mastra's model router does not ask for the usage of a stream.
func mastraOmits(want *seen) {
	if want.Way == "stream" {
		want.Usage = seenUsage{}
	}
}

// genkitOmits: Genkit's plugin shows three counts of the usage, and no text of an answer with
// calls, whose finish reason is "stop". Errors get its own statuses, without 502, and no codes.
func genkitOmits(want *seen) {
	if err := want.Error; err != nil {
		err.Code = ""
		if err.Status == 0 || err.Status == 502 {
			err.Status = 500
		}
		return
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
	if want.Finish == "tool_calls" {
		want.Content, want.Finish = "", "stop"
	}
}

// llamaIndexOmits: LlamaIndex does not ask for the usage of a stream, and its agent always streams.
func llamaIndexOmits(want *seen) {
	if want.Way == "stream" || strings.HasPrefix(want.Case, "results") {
		want.Usage = seenUsage{}
	}
}

// goOpenAIOmits: go-openai does not show the headers of an error.
func goOpenAIOmits(want *seen) {
	if want.Error != nil {
		want.Error.RetryAfter = ""
	}
}

// anthropicCodes are the types that Anthropic's clients read for the codes of OpenAI's.
var anthropicCodes = map[string]string{
	"rate_limit_exceeded": "rate_limit_error", "invalid_request": "invalid_request_error", "server_overloaded": "overloaded_error",
	"upstream_disconnected": "api_error",
}

// anthropicOmits: Anthropic's API has types of errors instead of codes, and a status of its own
// for an overload. Two messages of the model's are two blocks without a separator.
func anthropicOmits(want *seen) {
	want.Content = strings.TrimSpace(want.Content)
	if err := want.Error; err != nil {
		err.Code = anthropicCodes[err.Code]
		if err.Status == http.StatusServiceUnavailable {
			err.Status = 529
		}
	}
}

// vercelAnthropicOmits: the AI SDK has no types of errors.
func vercelAnthropicOmits(want *seen) {
	anthropicOmits(want)
	if want.Error != nil {
		want.Error.Code = ""
	}
}

// langChainAnthropicOmits: LangChain counts thinking as part of the output.
func langChainAnthropicOmits(want *seen) {
	anthropicOmits(want)
	want.Usage.Reasoning = 0
}

// ollamaOmits: Ollama's API has no codes of errors and no cached or reasoning tokens, and stops
// also after calls. Its clients do not show the headers of an error.
func ollamaOmits(want *seen) {
	if err := want.Error; err != nil {
		err.Code, err.RetryAfter = "", ""
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
	if want.Finish == "tool_calls" {
		want.Finish = "stop"
	}
}

// vercelOllamaOmits: the AI SDK shows headers, and makes its own finish reason of calls.
func vercelOllamaOmits(want *seen) {
	if want.Error != nil {
		want.Error.Code = ""
	}
	want.Usage.Cached, want.Usage.Reasoning = 0, 0
}
