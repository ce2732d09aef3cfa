package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// timedResponse counts the deadlines of its writes.
type timedResponse struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (t *timedResponse) SetWriteDeadline(time.Time) error {
	t.deadlines++
	return nil
}

// TestOwnDeadlines checks that Caddy sets no deadlines for the writes of a stream, unless
// its operator wants stricter ones.
func TestOwnDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		deadline caddyhttp.IdleDeadline
		want     int
	}{
		"default":        {caddyhttp.IdleDeadline{Timeout: time.Minute}, 0},
		"short":          {caddyhttp.IdleDeadline{Timeout: 5 * time.Second}, 2},
		"rate":           {caddyhttp.IdleDeadline{Timeout: time.Minute, MinRate: 100}, 2},
		"whole response": {caddyhttp.IdleDeadline{Timeout: time.Minute, HardDeadline: time.Now().Add(time.Hour)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			response := &timedResponse{ResponseRecorder: httptest.NewRecorder()}
			w := &caddyhttp.IdleTimeoutWriter{
				ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: response},
				Ctrl:                  http.NewResponseController(response), Deadline: test.deadline, Logger: zap.NewNop(),
			}
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			outer := struct{ http.ResponseWriter }{w}
			if got := withoutWriteDeadlines(outer, r); got != http.ResponseWriter(outer) {
				t.Errorf("without Caddy's writer the answer is written to %T", got)
			}
			r = r.WithContext(caddyhttp.ContextWithIdleTimeouts(r.Context(), nil, w))
			if got := withoutWriteDeadlines(outer, r); got != http.ResponseWriter(outer) {
				t.Errorf("a writer around Caddy's is left out: %T", got)
			}
			got := withoutWriteDeadlines(w, r)
			for range 2 {
				if _, err := got.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if response.deadlines != test.want {
				t.Errorf("%d deadlines, want %d", response.deadlines, test.want)
			}
		})
	}
}
