package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkRequest serves requests of every kind from their arrival to the end of
// their answers. The app-server, which allocates as well, runs in the same process:
//
//	go test -run '^$' -bench Request -benchmem ./internal/gateway
func BenchmarkRequest(b *testing.B) {
	const chat, response = `{"model":"m","messages":[{"role":"user","content":"x"}]`, `{"model":"m","store":false,"input":"x"`
	for _, c := range []struct {
		name, body, path string
		status           int
	}{
		{"chat", chat + `}`, "/v1/chat/completions", http.StatusOK},
		{"chat_stream", chat + `,"stream":true}`, "/v1/chat/completions", http.StatusOK},
		{"chat_choices", chat + `,"n":4}`, "/v1/chat/completions", http.StatusOK},
		{"response", response + `}`, "/v1/responses", http.StatusOK},
		{"response_stream", response + `,"stream":true}`, "/v1/responses", http.StatusOK},
		{"message", chat + `}`, "/v1/messages", http.StatusOK},
		{"message_stream", chat + `,"stream":true}`, "/v1/messages", http.StatusOK},
		{"invalid", `{"model":"m"}`, "/v1/chat/completions", http.StatusBadRequest},
	} {
		b.Run(c.name, func(b *testing.B) {
			g, rt := newGateway(talkative(b, 10), Options{MaxConcurrent: 4}), Find(c.path)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				g.Serve(rt, timed{w}, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
				if w.Code != c.status {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// timed is a writer with deadlines, which that of a server has: without them, each write would make
// an error.
type timed struct{ *httptest.ResponseRecorder }

// SetWriteDeadline does nothing.
func (timed) SetWriteDeadline(time.Time) error { return nil }
