package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// dial serves WebSockets with serve and returns a client of one.
func dial(t *testing.T, serve http.HandlerFunc) (context.Context, *websocket.Conn) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	client, _, err := websocket.Dial(ctx, server.URL, &websocket.DialOptions{HTTPHeader: http.Header{"X-Request-Id": {"r"}}})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.CloseNow() })
	return ctx, client
}

// ask sends a message and returns the one that answers it.
func ask(ctx context.Context, t *testing.T, client *websocket.Conn, message string) string {
	t.Helper()
	must.OK(t, client.Write(ctx, websocket.MessageText, []byte(message)))
	_, answer, err := client.Read(ctx)
	must.OK(t, err)
	return string(answer)
}

// echo answers with the body of the request as an event, and refuses "no" without reading further.
func echo(w *socketWriter, r *http.Request) (usable bool) {
	head := make([]byte, 2)
	_, _ = io.ReadFull(r.Body, head)
	if string(head) == "no" {
		return apierror.QueueFull().Respond(w, r) == nil
	}
	rest, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	if err := w.WriteComment("data: no"); err != nil || w.Started() {
		return false
	}
	event := r.Method + " " + r.Header.Get("X-Request-Id") + " " + string(head) + string(rest)
	return w.WriteEvent("x", []byte(event)) == nil && w.Flush() == nil && w.Started()
}

// TestSocketServer: each message is a request, and each event of its answer a message. An answer
// that is no stream is an error event, and the rest of the refused message is skipped.
func TestSocketServer(t *testing.T) {
	g := newGateway(nil, Options{})
	ctx, client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if apiErr := g.acceptSocket(w, r, "a", echo); apiErr != nil {
			t.Error(apiErr)
		}
	})
	if answer := ask(ctx, t, client, "first"); answer != "POST r-1 first" {
		t.Error(answer)
	}
	refused := ask(ctx, t, client, "no"+strings.Repeat("x", 1<<19))
	for _, part := range []string{`{"type":"error","status":429,`, `"retry-after":`, `"error":{`} {
		if !strings.Contains(refused, part) {
			t.Errorf("%s lacks %s", refused, part)
		}
	}
	if answer := ask(ctx, t, client, "third"); answer != "POST r-3 third" {
		t.Error(answer)
	}
	g.CloseSockets()
	if _, _, err := client.Read(ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("closed with %v", err)
	}
}

// TestTooManySockets: a WebSocket beyond the limit is refused, and its place is not taken.
func TestTooManySockets(t *testing.T) {
	g := newGateway(nil, Options{MaxBody: 1})
	others := g.sockets.Claim("b")
	others.Grow(maxSockets)
	apiErr := g.acceptSocket(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "a", echo)
	if apiErr == nil || apiErr.Code != apierror.TooManySockets().Code || g.sockets.Held() != maxSockets {
		t.Errorf("%v, %d are open", apiErr, g.sockets.Held())
	}
}

// TestOldSocket: a WebSocket of the age limit refuses the next request and ends.
func TestOldSocket(t *testing.T) {
	ctx, client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		c := &socketConn{ws: ws, handshake: r, handle: echo, opened: time.Now().Add(-maxSocketAge), messages: make(chan *socketMessage)}
		c.serve(t.Context())
	})
	if answer := ask(ctx, t, client, "late"); !strings.Contains(answer, string(apierror.SocketTooOld().Code)) {
		t.Error(answer)
	}
	if _, _, err := client.Read(ctx); err == nil {
		t.Error("the connection goes on")
	}
}

// TestLongMessage: a message far above the limit of a body ends the connection.
func TestLongMessage(t *testing.T) {
	g := newGateway(nil, Options{MaxBody: 1})
	ctx, client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if apiErr := g.acceptSocket(w, r, "a", echo); apiErr != nil {
			t.Error(apiErr)
		}
	})
	if err := client.Write(ctx, websocket.MessageText, make([]byte, 2*maxExcess)); err != nil {
		t.Log(err) // the server may close while the message is being sent
	}
	if _, _, err := client.Read(ctx); err == nil {
		t.Error("the message is answered")
	}
}

// TestLateMessage: a message that does not come to its end in time is refused with an error
// that the client can read. Then the WebSocket ends.
func TestLateMessage(t *testing.T) {
	for name, rest := range map[string]string{"silent": "", "at its own pace": "more"} {
		g := newGateway(nil, Options{})
		ctx, client := dial(t, func(w http.ResponseWriter, r *http.Request) {
			if apiErr := g.acceptSocket(w, r, "a", func(w *socketWriter, r *http.Request) (usable bool) {
				if _, err := io.ReadFull(r.Body, make([]byte, 4)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				_ = http.NewResponseController(w).SetReadDeadline(time.Now())
				if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				return apierror.BodyTimeout(1, time.Minute).Respond(w, r) == nil
			}); apiErr != nil {
				t.Error(apiErr)
			}
		})
		message, err := client.Writer(ctx, websocket.MessageText)
		must.OK(t, err)
		for _, part := range []string{strings.Repeat("x", 1<<16), rest} { // more than is buffered
			if _, err := io.WriteString(message, part); err != nil {
				t.Log(err) // the server may have ended the connection
			}
		}
		_, answer, err := client.Read(ctx)
		if err != nil || !strings.Contains(string(answer), `"status":408`) {
			t.Errorf("%s: %s %v", name, answer, err)
		}
		if _, _, err := client.Read(ctx); err == nil {
			t.Errorf("%s: the connection goes on", name)
		}
	}
}
