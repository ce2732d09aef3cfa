package scriptedmodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// site is a running server and a client of it.
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

// object is a decoded JSON object.
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
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// answer holds the events of a stream.
type answer struct {
	events []object
	err    error // why it ended; io.EOF for a complete stream
}

// ask sends a body and reads the stream until it ends or fails.
func (s *site) ask(body string) answer {
	s.t.Helper()
	response := s.post(deadline(s.t), body)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		s.t.Fatalf("status %d: %s", response.StatusCode, text)
	}
	if got := response.Header.Get("Content-Type"); got != sse.ContentType {
		s.t.Errorf("content type %q", got)
	}
	var a answer
	r := sse.NewReader(response.Body, sse.ReaderOptions{})
	for {
		var e object
		if e, a.err = next(s.t, r); a.err != nil {
			break
		}
		a.events = append(a.events, e)
	}
	checkEvents(s.t, a.events)
	return a
}

// prompt sends a prompt and expects a complete stream.
func (s *site) prompt(prompt string, more object) answer {
	s.t.Helper()
	a := s.ask(body(prompt, more))
	if a.err != io.EOF {
		s.t.Errorf("the stream ended with %v", a.err)
	}
	return a
}

// next reads an event and decodes its data.
func next(t *testing.T, r *sse.Reader) (object, error) {
	t.Helper()
	event, err := r.Next()
	if err != nil {
		return nil, err
	}
	var e object
	if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
		t.Fatalf("%v in %s", err, event.Data)
	}
	if e["type"] != event.Type {
		t.Errorf("the event line says %q, the data %v", event.Type, e["type"])
	}
	return e, nil
}

// types returns the types of the events, with runs of deltas as one.
func (a answer) types() string {
	var types []string
	for _, e := range a.events {
		typ := strings.TrimPrefix(e["type"].(string), "response.")
		if strings.HasSuffix(typ, "delta") && len(types) > 0 && types[len(types)-1] == typ {
			continue
		}
		types = append(types, typ)
	}
	return strings.Join(types, " ")
}

// deltas returns the deltas of the events with this type.
func (a answer) deltas(typ string) (deltas []string) {
	for _, e := range a.events {
		if e["type"] == typ {
			deltas = append(deltas, e["delta"].(string))
		}
	}
	return deltas
}

// text returns the text of all messages.
func (a answer) text() string {
	return strings.Join(a.deltas("response.output_text.delta"), "")
}

// calls returns the finished function calls.
func (a answer) calls() (calls []Call) {
	for _, e := range a.events {
		if e["type"] == "response.output_item.done" && e.at("item", "type") == "function_call" {
			calls = append(calls, Call{Name: e.at("item", "name").(string), Arguments: e.at("item", "arguments").(string)})
		}
	}
	return calls
}

// last returns the last event.
func (a answer) last() object {
	if len(a.events) == 0 {
		return nil
	}
	return a.events[len(a.events)-1]
}

// refused sends a body, expects this status and returns the error.
func (s *site) refused(body string, status int) object {
	s.t.Helper()
	response := s.post(deadline(s.t), body)
	defer response.Body.Close()
	var e object
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil {
		s.t.Fatal(err)
	}
	if response.StatusCode != status {
		s.t.Errorf("status %d, want %d: %v", response.StatusCode, status, e)
	}
	if err := hasFields(e.at("error"), "message", "type", "param", "code"); err != nil {
		s.t.Error(err)
	}
	return e
}

func hasFields(value any, fields ...string) error {
	m, ok := value.(map[string]any)
	if !ok {
		return errors.New("not an object")
	}
	var missing []string
	for _, f := range fields {
		if _, ok := m[f]; !ok {
			missing = append(missing, f)
		}
	}
	if missing != nil {
		var text bytes.Buffer
		_ = json.NewEncoder(&text).Encode(value)
		return errors.New("without " + strings.Join(missing, ", ") + ": " + text.String())
	}
	return nil
}
