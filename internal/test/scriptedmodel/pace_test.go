package scriptedmodel

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestChunks checks the size of deltas, and that no character is cut.
func TestChunks(t *testing.T) {
	cases := []struct {
		size string
		text string
		want []string
	}{
		{"4", "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{"1", "aß你👋", []string{"a", "ß", "你", "👋"}},
		{"2", "aß你👋", []string{"a", "ß", "你", "👋"}},
		{"3", "aß你👋", []string{"aß", "你", "👋"}},
		{"5", "aß你👋", []string{"aß", "你", "👋"}},
		{"7", "aß你👋", []string{"aß你", "👋"}},
		{"all", "aß你👋", []string{"aß你👋"}},
	}
	s := start(t)
	for _, c := range cases {
		a := s.prompt("chunk="+c.size+"; say:"+c.text+"; tool:f "+c.text+"; reason:"+c.text, nil)
		for _, typ := range []string{"output_text", "function_call_arguments", "reasoning_summary_text"} {
			if got := a.deltas("response." + typ + ".delta"); strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("chunk=%s: %s came in %q, want %q", c.size, typ, got, c.want)
			}
		}
	}
	if got := s.prompt("say:"+strings.Repeat("x", 40), nil).deltas("response.output_text.delta"); len(got) != 3 || len(got[0]) != 16 {
		t.Errorf("by default: %q", got)
	}
}

// clocked is a response writer that records when each event is flushed.
type clocked struct {
	*httptest.ResponseRecorder
	begin time.Time
	log   []string
	seen  int
}

func (c *clocked) FlushError() error {
	text := c.Body.String()
	for line := range strings.Lines(text[c.seen:]) {
		if typ, ok := strings.CutPrefix(line, "event: response."); ok {
			c.log = append(c.log, time.Since(c.begin).String()+" "+strings.TrimSpace(typ))
		}
	}
	c.seen = len(text)
	return nil
}

// TestPace checks the pauses, and that everything before a pause is flushed.
func TestPace(t *testing.T) {
	const want = "0s created, 0s in_progress, " +
		"2s output_item.added, 2s content_part.added, 2s output_text.delta, " +
		"12s output_text.delta, " +
		"12s output_text.done, 12s content_part.done, 12s output_item.done, 12s output_item.added, " +
		"22s function_call_arguments.delta, " +
		"22s function_call_arguments.done, 22s output_item.done, 22s completed"
	prompt := "chunk=2; say:abcd; tool:f {}"
	cases := []struct {
		name string
		opts Options
		body string
	}{
		{"directives", Options{}, body("delay=10s firstdelay=2s "+prompt, nil)},
		{"options", Options{Delay: 10 * time.Second}, body("firstdelay=2s "+prompt, nil)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(c.opts)
				defer s.Close()
				w := &clocked{ResponseRecorder: httptest.NewRecorder(), begin: time.Now()}
				s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(c.body)))
				_ = w.FlushError() // as the server does at the end
				if got := strings.Join(w.log, ", "); got != want {
					t.Errorf("events\n%s\nwant\n%s", got, want)
				}
			})
		})
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
