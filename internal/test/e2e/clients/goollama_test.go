package clients

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/ollama/ollama/api"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// runGoOllama runs the cases with Ollama's own client, like clients/run.js for the clients in Node.
func runGoOllama(s *e2e.Site) []seen {
	at, err := url.Parse(s.URL)
	if err != nil {
		s.T.Fatal(err)
	}
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

// rounds asks, answers the calls if the case wants it, and asks again.
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
	first, err := o.ask(request)
	if err != nil || !c.Results {
		return sawOllama(c, first), err
	}
	request.Messages = append(request.Messages, first.Message)
	for _, call := range first.Message.ToolCalls {
		query, _ := call.Function.Arguments.Get("query")
		request.Messages = append(request.Messages, api.Message{Role: "tool", ToolName: call.Function.Name, ToolCallID: call.ID, Content: "found: " + query.(string)})
	}
	second, err := o.ask(request)
	saw := sawOllama(c, second)
	saw.Calls = sawOllama(c, first).Calls
	return saw, err
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
