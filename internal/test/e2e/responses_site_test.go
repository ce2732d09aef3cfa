package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
)

// response is a Response object with the members that tests read.
type response struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Model  string          `json:"model"`
	Error  json.RawMessage `json:"error"`
	Output []outputItem    `json:"output"`
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

	events []responseEvent // of a stream
}

// outputItem is an item of a response.
type outputItem struct {
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

// text returns the text of the response.
func (r *response) text() (text string) {
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// calls returns the function calls of the response.
func (r *response) calls() (calls []outputItem) {
	for _, item := range r.Output {
		if item.Type == "function_call" {
			calls = append(calls, item)
		}
	}
	return calls
}

// types returns the types of its items, or of its events.
func (r *response) types() string {
	var all []string
	for _, item := range r.Output {
		all = append(all, item.Type)
	}
	return strings.Join(all, " ")
}

// responseEvent is an event of a stream.
type responseEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Item     outputItem      `json:"item"`
	Delta    string          `json:"delta"`
	Response json.RawMessage `json:"response"`
}

func (r *response) eventTypes() (types []string) {
	for _, e := range r.events {
		types = append(types, strings.TrimPrefix(e.Type, "response."))
	}
	return types
}

// fields are the members of a request.
type fields map[string]any

// asks returns a request with this input and more members.
func asks(input any, more fields) fields {
	request := fields{"model": "gpt-5", "input": input}
	for name, v := range more {
		request[name] = v
	}
	return request
}

// says returns an input message.
func says(role, text string) fields { return fields{"type": "message", "role": role, "content": text} }

// functionTool returns a function in the flat form of the Responses API.
func functionTool(name string) fields {
	return fields{
		"type": "function", "name": name, "description": "Search the vault",
		"parameters": fields{"type": "object", "properties": fields{"query": fields{"type": "string"}}, "required": []string{"query"}},
	}
}

func encodeJSON(v any) string {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		panic(err)
	}
	return buf.String()
}

// respond posts a request and expects a response.
func (s *site) respond(request fields, header http.Header) *response {
	s.t.Helper()
	answer := s.do(http.MethodPost, "/v1/responses", strings.NewReader(encodeJSON(request)), header)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatal(answer.Status, s.read(answer))
	}
	if request["stream"] == true {
		return s.readEvents(answer)
	}
	return s.parseResponse([]byte(s.read(answer)))
}

// refuseResponse posts a request and expects an error status.
func (s *site) refuseResponse(request fields, header http.Header) (*http.Response, apiError) {
	s.t.Helper()
	answer := s.do(http.MethodPost, "/v1/responses", strings.NewReader(encodeJSON(request)), header)
	var refused apiError
	body := s.read(answer)
	if err := json.Unmarshal([]byte(body), &refused); err != nil || refused.Error.Message == nil {
		s.t.Fatal(answer.Status, body, err)
	}
	if err := apischema.Check("ErrorResponse", []byte(body)); err != nil {
		s.t.Error(err)
	}
	return answer, refused
}

// parseResponse reads a Response and checks it against OpenAI's description.
func (s *site) parseResponse(body []byte) *response {
	s.t.Helper()
	if err := apischema.Check("Response", body); err != nil {
		s.t.Errorf("%s\n%v", body, err)
	}
	r := new(response)
	if err := json.Unmarshal(body, r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// readEvents reads a stream and checks what every stream has.
func (s *site) readEvents(answer *http.Response) *response {
	s.t.Helper()
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		s.t.Error("content type", kind)
	}
	var events []responseEvent
	reader := apiclient.NewReader(answer.Body)
	for {
		frame, err := reader.Next()
		if err != nil {
			break
		}
		if err := apischema.CheckEvent([]byte(frame.Data)); err != nil {
			s.t.Errorf("%s\n%v", frame.Data, err)
		}
		var e responseEvent
		if err := json.Unmarshal([]byte(frame.Data), &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Sequence != len(events) || frame.Type != e.Type {
			s.t.Errorf("event %d is %s, named %q, with the number %d", len(events), e.Type, frame.Type, e.Sequence)
		}
		events = append(events, e)
	}
	if len(events) < 3 || events[0].Type != "response.created" || events[1].Type != "response.in_progress" {
		s.t.Fatalf("%d events", len(events))
	}
	last := s.parseResponse(events[len(events)-1].Response)
	last.events = events
	if want := events[0].Response; !bytes.Contains(want, []byte(`"in_progress"`)) || !bytes.Contains(want, []byte(last.ID)) {
		s.t.Errorf("the first event has %s", want)
	}
	return last
}

// eachWay runs a test with and without streaming.
func eachWay(t *testing.T, s *site, test func(t *testing.T, s *site, stream bool)) {
	t.Helper()
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		t.Run(name, func(t *testing.T) { test(t, s.at(t), stream) })
	}
}
