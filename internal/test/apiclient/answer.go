package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/sse"
)

// API is one of the APIs that answer with what the model says.
type API uint8

// The APIs.
const (
	Chat API = iota
	Responses
	Messages // Anthropic's
	Ollama
)

var paths = []string{Chat: "/v1/chat/completions", Responses: "/v1/responses", Messages: "/v1/messages", Ollama: "/api/chat"}

// At returns the API with a path, which must be that of one.
func At(path string) API { return API(slices.Index(paths, path)) }

// String returns the path of the API.
func (api API) String() string { return paths[api] }

// Answer is an answer of any API, streamed or not.
type Answer struct {
	ID      string
	Choices []Choice // a Response and a message have one
	Usage   *Usage
	Failed  bool            // there was an error
	Code    string          // of the error, or its type in a message, or OllamaFailure
	Ended   bool            // it had its proper end
	Object  json.RawMessage // the final Response
	Texts   []string        // of the messages of a Response, and an empty one for each reasoning item
	Message *messagecheck.Message
}

// Choice is the content of one choice. The texts of several messages, or parts of the
// reasoning, have an empty line between them.
type Choice struct {
	Text, Reasoning string
	Calls           []Call
	Finish          string   // finish_reason, also for other APIs; empty if the choice has not ended
	Opened          bool     // a chunk of it came
	Sealed          []string // the summaries of the conversation that the client keeps, of a Response
}

// Call is a tool call.
type Call struct{ ID, Name, Arguments string }

// Usage counts tokens.
type Usage struct{ Input, Output, Cached, Reasoned int }

// CalledFirst reports whether the calls of a choice are the first of some, but for their
// ids. If the choice has not ended its last call may be incomplete.
func (c *Choice) CalledFirst(of []Call) bool {
	if len(c.Calls) > len(of) {
		return false
	}
	for i, call := range c.Calls {
		want := of[i]
		if c.Finish == "" && i == len(c.Calls)-1 {
			want.Arguments = want.Arguments[:min(len(call.Arguments), len(want.Arguments))]
		}
		if call.Name != want.Name || call.Arguments != want.Arguments {
			return false
		}
	}
	return true
}

// Read reads an answer with the status 200 up to where it is cut off. An invalid form is an error.
func Read(body []byte, api API, stream bool, choices int) (*Answer, error) {
	a := &Answer{Choices: make([]Choice, choices)}
	switch {
	case api == Messages:
		return a, a.message(body, stream)
	case api == Ollama:
		return a, a.ollama(body, stream)
	case stream && api == Responses:
		return a, (&responseReader{answer: a}).stream(body)
	case stream:
		return a, a.eachEvent(body, a.chatEvent)
	case api == Responses:
		return a, a.response(body)
	}
	return a, a.chat(body)
}

// ReadError reads an error in the form of an API.
func ReadError(body []byte, api API) (*Answer, error) {
	var e struct {
		Error map[string]any `json:"error"`
	}
	a := new(Answer)
	switch api {
	case Messages:
		return a, a.messageError(body)
	case Ollama:
		return a, a.ollamaError(body)
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return a, err
	}
	return a, a.fail(e.Error)
}

func (a *Answer) fail(e map[string]any) error {
	for _, member := range []string{"message", "type", "param", "code"} {
		if value, ok := e[member]; !ok || value == "" {
			return fmt.Errorf("the error %v has no %s", e, member)
		}
	}
	a.Failed = true
	a.Code, _ = e["code"].(string) // may be null
	return nil
}

// eachEvent calls read for a stream's events, but one that is cut off. None may follow the end.
func (a *Answer) eachEvent(body []byte, read func(sse.Event) error) error {
	for e, err := range sse.Read(bytes.NewReader(body)) {
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err == nil && a.Ended:
			err = errors.New("after the end")
		case err == nil:
			err = read(e)
		}
		if err != nil {
			return fmt.Errorf("%w: %.300q", err, e.Data)
		}
	}
	return nil
}
