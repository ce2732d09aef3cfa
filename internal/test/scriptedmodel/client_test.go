package scriptedmodel

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/sse"
)

type site struct {
	*Server
	t      *testing.T
	url    string
	client *http.Client
}

func start(t *testing.T) *site {
	t.Helper()
	s := New(Options{})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		server.Close()
	})
	return &site{Server: s, t: t, url: server.URL, client: server.Client()}
}

// deadline bounds the waits of a failing test.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// at returns the member at a path of keys; nil if there is none.
func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

// body returns a request with a prompt and further members.
func body(prompt string, more object) string {
	request := object{"model": "gpt-5", "stream": true, "input": prompt}
	for k, v := range more {
		request[k] = v
	}
	data, err := json.Marshal(request)
	if err != nil {
		panic(err) // the tests use JSON values only
	}
	return string(data)
}

// post sends a body. The caller closes the response.
func (s *site) post(ctx context.Context, body string) *http.Response {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/responses", strings.NewReader(body))
	must.OK(s.t, err)
	response, err := s.client.Do(request)
	must.OK(s.t, err)
	return response
}

// answer is what a stream has said and called.
type answer struct {
	text  string
	calls []Call
}

// prompt sends a prompt with more members, and reads the stream to its end.
func (s *site) prompt(prompt string, more object) (a answer) {
	s.t.Helper()
	response := s.post(deadline(s.t), body(prompt, more))
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		s.t.Fatalf("status %d: %s", response.StatusCode, text)
	}
	for event, err := range sse.Read(response.Body) {
		must.OK(s.t, err)
		var e object
		if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
			s.t.Fatalf("%v in %s", err, event.Data)
		}
		switch {
		case event.Type == "response.output_text.delta":
			a.text += e["delta"].(string)
		case event.Type == "response.output_item.done" && e.at("item", "type") == "function_call":
			a.calls = append(a.calls, Call{Name: e.at("item", "name").(string), Arguments: e.at("item", "arguments").(string)})
		}
	}
	return a
}

// refused sends a body, expects this status and returns the error.
func (s *site) refused(body string, status int) object {
	s.t.Helper()
	response := s.post(deadline(s.t), body)
	defer response.Body.Close()
	var e object
	must.OK(s.t, json.NewDecoder(response.Body).Decode(&e))
	if response.StatusCode != status {
		s.t.Errorf("status %d, want %d: %v", response.StatusCode, status, e)
	}
	return e
}
