package scriptedmodel

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestChunks checks the size of deltas, and that no character is cut.
func TestChunks(t *testing.T) {
	for _, c := range []struct {
		size int
		text string
		want []string
	}{
		{4, "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{1, "aß你👋", []string{"a", "ß", "你", "👋"}},
		{2, "aß你👋", []string{"a", "ß", "你", "👋"}},
		{3, "aß你👋", []string{"aß", "你", "👋"}},
		{5, "aß你👋", []string{"aß", "你", "👋"}},
		{7, "aß你👋", []string{"aß你", "👋"}},
		{ChunkAll, "aß你👋", []string{"aß你👋"}},
	} {
		if got := slices.Collect(chunks(c.text, c.size)); !slices.Equal(got, c.want) {
			t.Errorf("chunk=%d: %q, want %q", c.size, got, c.want)
		}
	}
}

// TestRequestsBound checks that the oldest requests are dropped, by number and by size.
func TestRequestsBound(t *testing.T) {
	s := start(t)
	s.log.limit = 2
	for range 5 {
		s.prompt("say:x", nil)
	}
	requests := s.Requests()
	if len(requests) != 2 || requests[0].Number != 4 || requests[1].Number != 5 {
		t.Errorf("kept %+v", requests)
	}
	if stats := s.Stats(); stats.Requests != 5 || stats.Finished != 5 {
		t.Errorf("stats %+v", stats)
	}

	r := New(Options{}).log
	big := bytes.Repeat([]byte{' '}, maxKeptBytes/2)
	for range 3 {
		r.add(&Request{Body: big})
	}
	if len(r.kept) != 2 || r.bytes != maxKeptBytes || r.kept[0].Number != 2 {
		t.Errorf("kept %d bodies of %d bytes, the first is number %d", len(r.kept), r.bytes, r.kept[0].Number)
	}
}
