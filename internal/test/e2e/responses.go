package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/sse"
)

// Response is a Response object with the members that tests read.
type Response struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Model  string          `json:"model"`
	Error  json.RawMessage `json:"error"`
	Output []OutputItem    `json:"output"`
	Usage  struct {
		Input        int `json:"input_tokens"`
		Output       int `json:"output_tokens"`
		Total        int `json:"total_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Previous *string `json:"previous_response_id"`
	Store    bool    `json:"store"`

	Events []ResponseEvent // of a stream
}

// OutputItem is an item of a response.
type OutputItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	Name      string `json:"name"`
	CallID    string `json:"call_id"`
	Arguments string `json:"arguments"`
	Input     string `json:"input"`
	Content   []struct {
		Text string `json:"text"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

// Text returns the text of the response.
func (r *Response) Text() (text string) {
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// Calls returns the function calls of the response.
func (r *Response) Calls() (calls []OutputItem) {
	for _, item := range r.Output {
		if item.Type == "function_call" {
			calls = append(calls, item)
		}
	}
	return calls
}

// Types returns the types of its items.
func (r *Response) Types() string {
	var all []string
	for _, item := range r.Output {
		all = append(all, item.Type)
	}
	return strings.Join(all, " ")
}

// ResponseEvent is an event of a stream.
type ResponseEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Item     OutputItem      `json:"item"`
	Delta    string          `json:"delta"`
	Response json.RawMessage `json:"response"`
}

// EventTypes returns the types of the events of a stream, without "response.".
func (r *Response) EventTypes() (types []string) {
	for _, e := range r.Events {
		types = append(types, strings.TrimPrefix(e.Type, "response."))
	}
	return types
}

// Fields are the members of a request.
type Fields map[string]any

// Asks returns a request with this input and more members.
func Asks(input any, more Fields) Fields {
	request := Fields{"model": "gpt-5", "input": input}
	maps.Copy(request, more)
	return request
}

// Says returns an input message.
func Says(role, text string) Fields { return Fields{"type": "message", "role": role, "content": text} }

// FunctionTool returns a function in the flat form of the Responses API.
func FunctionTool(name string) Fields {
	return Fields{
		"type": "function", "name": name, "description": "Search the vault",
		"parameters": Fields{"type": "object", "properties": Fields{"query": Fields{"type": "string"}}, "required": []string{"query"}},
	}
}

// Respond posts a request and expects a response.
func (s *Site) Respond(request Fields, header http.Header) *Response {
	s.T.Helper()
	answer := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(EncodeJSON(request)), header)
	if answer.StatusCode != http.StatusOK {
		s.T.Fatal(answer.Status, s.Read(answer))
	}
	if request["stream"] == true {
		return s.readEvents(answer)
	}
	return s.ParseResponse([]byte(s.Read(answer)))
}

// RefuseResponse posts a request and expects an error status.
func (s *Site) RefuseResponse(request Fields, header http.Header) (*http.Response, APIError) {
	s.T.Helper()
	answer, body := s.Call(http.MethodPost, "/v1/responses", request, header)
	var refused APIError
	if err := json.Unmarshal([]byte(body), &refused); err != nil || refused.Error.Message == nil {
		s.T.Fatal(answer.Status, body, err)
	}
	if err := apischema.Check("ErrorResponse", []byte(body)); err != nil {
		s.T.Error(err)
	}
	return answer, refused
}

// ParseResponse reads a Response and checks it against OpenAI's description.
func (s *Site) ParseResponse(body []byte) *Response {
	s.T.Helper()
	if err := apischema.Check("Response", body); err != nil {
		s.T.Errorf("%s\n%v", body, err)
	}
	r := new(Response)
	must.OK(s.T, json.Unmarshal(body, r))
	return r
}

// readEvents reads a stream and checks what every stream has.
func (s *Site) readEvents(answer *http.Response) *Response {
	s.T.Helper()
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		s.T.Error("content type", kind)
	}
	var events []ResponseEvent
	for frame, err := range sse.Read(answer.Body) {
		if err != nil {
			break
		}
		if err := apischema.CheckEvent([]byte(frame.Data)); err != nil {
			s.T.Errorf("%s\n%v", frame.Data, err)
		}
		var e ResponseEvent
		must.OK(s.T, json.Unmarshal([]byte(frame.Data), &e))
		if e.Sequence != len(events) || frame.Type != e.Type {
			s.T.Errorf("event %d is %s, named %q, with the number %d", len(events), e.Type, frame.Type, e.Sequence)
		}
		events = append(events, e)
	}
	if len(events) < 3 || events[0].Type != "response.created" || events[1].Type != "response.in_progress" {
		s.T.Fatalf("%d events", len(events))
	}
	last := s.ParseResponse(events[len(events)-1].Response)
	last.Events = events
	if want := events[0].Response; !bytes.Contains(want, []byte(`"in_progress"`)) || !bytes.Contains(want, []byte(last.ID)) {
		s.T.Errorf("the first event has %s", want)
	}
	return last
}

// EachWay runs a test with and without streaming.
func EachWay(t *testing.T, s *Site, test func(t *testing.T, s *Site, stream bool)) {
	t.Helper()
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		t.Run(name, func(t *testing.T) { test(t, s.At(t), stream) })
	}
}
