package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestHalfClosed checks that a client which has closed its sending side does not get
// what looks like a complete answer. For net/http it has left, but it still reads.
func TestHalfClosed(t *testing.T) {
	s := e2e.NewSite(t, "")
	address := strings.TrimPrefix(s.URL, "http://")
	for name, c := range map[string]struct {
		path, body string
		more       int    // bytes of the Content-Length after the body
		until      string // text that the client waits for before it closes
	}{
		"whole":     {"/v1/chat/completions", e2e.ChatBody("say:Half of it; hang", nil), 0, ""},
		"stream":    {"/v1/chat/completions", e2e.ChatBody("say:Half of it; hang", map[string]any{"stream": true}), 0, "Half"},
		"unbegun":   {"/v1/chat/completions", e2e.ChatBody("hang", map[string]any{"stream": true}), 0, ""},
		"responses": {"/v1/responses", `{"model":"gpt-5","input":"hang"}`, 0, ""},
		"cut body":  {"/v1/chat/completions", `{"model":"gpt-5"`, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := e2e.Context(t)
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if deadline, ok := ctx.Deadline(); ok {
				if err := conn.SetDeadline(deadline); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				c.path, address, len(c.body)+c.more, c.body); err != nil {
				t.Fatal(err)
			}
			var begun strings.Builder
			reader := bufio.NewReader(io.TeeReader(conn, &begun))
			for c.until != "" && !strings.Contains(begun.String(), c.until) {
				if _, err := reader.ReadByte(); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, reader) // a reset is possible
			got := begun.String()
			switch {
			case c.until != "" && strings.HasSuffix(got, "\r\n0\r\n\r\n"):
				t.Errorf("the stream looks whole:\n%s", got)
			case c.until == "" && strings.HasPrefix(got, "HTTP/1.1 200"):
				t.Errorf("answered:\n%s", got)
			}
		})
	}
}
