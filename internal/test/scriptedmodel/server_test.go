package scriptedmodel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
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

// TestLongestStream checks that a stream which hangs has a maximum duration.
func TestLongestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		begin := time.Now()
		func() {
			defer func() {
				if r := recover(); r != http.ErrAbortHandler {
					t.Errorf("the handler ended with %v", r)
				}
			}()
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body("hang", nil))))
		}()
		if got := time.Since(begin); got != maxStream {
			t.Errorf("the stream ended after %v, want %v", got, maxStream)
		}
		if stats := s.Stats(); stats != (Stats{Requests: 1, Bytes: len(body("hang", nil))}) {
			t.Errorf("stats %+v", stats)
		}
	})
}
