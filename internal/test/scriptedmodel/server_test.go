package scriptedmodel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBadRequests(t *testing.T) {
	s := start(t)
	for _, text := range []string{
		``, `{`, `[]`, `{"stream":true,"input":7}`, `{"stream":true,"input":[7]}`, `{"stream":true,"input":[{"content":7}]}`,
		`{"stream":true,"input":"x","tools":[7]}`, `{"stream":"yes"}`, `{"input":"say:no stream"}`,
	} {
		s.refused(text, 400)
	}
	if stats := s.Stats(); stats.Requests != 9 || stats.Finished != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// spaces is an endless body.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestBodies(t *testing.T) {
	cases := []struct {
		name   string
		body   io.Reader
		status int
	}{
		{"endless", spaces{}, http.StatusRequestEntityTooLarge},
		{"broken", iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusBadRequest},
	}
	s := New(Options{})
	defer s.Close()
	for _, c := range cases {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", c.body))
		if w.Code != c.status || !strings.Contains(w.Body.String(), "could not be read") {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if stats := s.Stats(); stats.Requests != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// TestOn checks the order of registered functions, and their removal.
func TestOn(t *testing.T) {
	s := start(t)
	say := func(key, text string) func() {
		return s.On(func(r Request) (Script, bool) {
			return Script{Output: []Output{Say(text)}}, strings.Contains(r.UserText(), key)
		})
	}
	want := func(prompt, want string) {
		t.Helper()
		if got := s.prompt(prompt, nil).text(); got != want {
			t.Errorf("%q is answered with %q, want %q", prompt, got, want)
		}
	}
	removeFirst := say("key", "first")
	removeSecond := say("key two", "second")
	want("key", "first")
	want("key two", "second")
	want("say:own", "own")
	want("say:own key", "first")
	removeSecond()
	removeSecond()
	want("key two", "first")
	removeFirst()
	want("say:key", "key")
}

// TestOnAny checks that scripts of functions are sent as they are.
func TestOnAny(t *testing.T) {
	s := start(t)
	defer s.On(func(Request) (Script, bool) {
		return Script{End: HTTPError{Status: 404, Code: "not_here", Message: "gone"}}, true
	})()
	if e := s.refused(body("x", nil), 404); e.at("error", "code") != "not_here" || e.at("error", "message") != "gone" {
		t.Errorf("refused with %v", e)
	}
	defer s.On(func(Request) (Script, bool) {
		return Script{Output: []Output{Call{Name: "f"}}}, true
	})()
	if calls := s.prompt("x", nil).calls(); len(calls) != 1 || calls[0] != (Call{Name: "f", Arguments: ""}) {
		t.Errorf("the calls are %v", calls)
	}
}
