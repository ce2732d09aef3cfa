package codexrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// socketServer serves WebSockets with a handler and returns its address. It ends when
// all handlers have returned; quit tells them to.
func socketServer(t *testing.T, handle func(ws *websocket.Conn, quit <-chan struct{})) (address string, server *httptest.Server) {
	t.Helper()
	quit := make(chan struct{})
	server = httptest.NewServer(upgrade(t, func(ws *websocket.Conn) { handle(ws, quit) }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(quit) })
	return "ws" + strings.TrimPrefix(server.URL, "http"), server
}

// upgrade is a handler of WebSockets that refuses the headers which Codex refuses.
func upgrade(t *testing.T, handle func(ws *websocket.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Origin", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"} {
			if value, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
				t.Errorf("the request has %s: %q", name, value)
			}
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting: %v", err)
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(-1)
		handle(ws)
	})
}

// echo sends each message back until the peer leaves.
func echo(ws *websocket.Conn, _ <-chan struct{}) {
	for {
		kind, message, err := ws.Read(context.Background())
		if err != nil || kind != websocket.MessageText || ws.Write(context.Background(), kind, message) != nil {
			return
		}
	}
}

func dialSocket(t *testing.T, address, token string) *WebSocket {
	t.Helper()
	s, err := DialWebSocket(t.Context(), address, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestWebSocketCarriesMessages checks messages of all sizes over each kind of address.
func TestWebSocketCarriesMessages(t *testing.T) {
	plain, server := socketServer(t, echo)
	socket := filepath.Join(t.TempDir(), "codex.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	onUnix := &http.Server{Handler: server.Config.Handler}
	go func() { _ = onUnix.Serve(l) }()
	t.Cleanup(func() { _ = onUnix.Close() })
	secure := httptest.NewTLSServer(server.Config.Handler)
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authority) // read at the first use of TLS in this program
	for name, address := range map[string]string{
		"ws":   plain,
		"unix": "unix/" + socket,
		"wss":  "wss" + strings.TrimPrefix(secure.URL, "https"),
	} {
		t.Run(name, func(t *testing.T) {
			s := dialSocket(t, address, "")
			for _, size := range []int{1, 125, 126, readBuffer - 1, readBuffer, readBuffer + 1, maxFrame + 1, 2} {
				message := bytes.Repeat([]byte("x"), size)
				if err := s.Write(message, patience); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Read(); err != nil || !bytes.Equal(got, message) {
					t.Fatalf("of %d bytes came %d (%v)", size, len(got), err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := s.Read(); err == nil {
				t.Error("a closed connection was read from")
			}
		})
	}
}

// TestWebSocketSkipsWhatIsTooLarge checks that a message that is too large is skipped,
// in one frame or in many, and that the next one is whole.
func TestWebSocketSkipsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	address, _ := socketServer(t, func(ws *websocket.Conn, quit <-chan struct{}) {
		for _, size := range []int{limit, limit + 1, 3 * limit, 5} {
			w, err := ws.Writer(context.Background(), websocket.MessageText)
			if err != nil {
				return
			}
			for rest := size; rest > 0; {
				n := min(rest, 7_001)
				if _, err := w.Write(bytes.Repeat([]byte("x"), n)); err != nil {
					return
				}
				rest -= n
			}
			if w.Close() != nil {
				return
			}
		}
		<-quit
	})
	s := dialSocket(t, address, "")
	s.limit = limit
	for _, want := range []int{limit, 0, 0, 5} {
		got, err := s.Read()
		if skipped, ok := errors.AsType[*tooLargeError](err); ok && (len(skipped.head) != keptBytes || len(skipped.tail) != keptBytes) {
			t.Errorf("kept %d and %d bytes", len(skipped.head), len(skipped.tail))
		}
		if want == 0 && !errors.Is(err, ErrMessageTooLarge) || want != 0 && err != nil || len(got) != want {
			t.Errorf("%d bytes, %v; want %d", len(got), err, want)
		}
	}
}

func TestWebSocketIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		token  string
		status int
		body   string
		want   []string
	}{
		"wrong token":  {"bad", 401, "invalid websocket bearer token", []string{"HTTP 401: invalid websocket bearer token", "not the one it was started with"}},
		"no token":     {"", 401, "", []string{"HTTP 401)", "wants a token"}},
		"forbidden":    {"", 403, "<html>\n no", []string{"<html> no", "Origin"}},
		"other site":   {"", 404, strings.Repeat("long ", 1000), []string{"no WebSocket is served there"}},
		"page":         {"", 200, "hello", []string{"HTTP 200", "check the address"}},
		"dead backend": {"", 502, "", []string{"does not reach it", "codex app-server --listen"}},
		"elsewhere":    {"t", 302, "", []string{"HTTP 302"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			visits := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				visits++
				if want := strings.TrimSuffix("Bearer "+test.token, "Bearer "); r.Header.Get("Authorization") != want {
					t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			_, err := DialWebSocket(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), test.token)
			server.Close()
			if err == nil {
				t.Fatal("it was not refused")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, without %q", err, part)
				}
			}
			if visits != 1 || len(err.Error()) > 600 {
				t.Errorf("%d visits, and %d bytes of error", visits, len(err.Error()))
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	_ = l.Close()
	for _, address := range []string{"ws://" + gone, "unix/" + filepath.Join(t.TempDir(), "none.sock")} {
		_, err := DialWebSocket(t.Context(), address, "")
		if err == nil || !strings.Contains(err.Error(), "nobody listens there") || !strings.Contains(err.Error(), address) {
			t.Errorf("got %v", err)
		}
	}
}

// TestDialEnds checks that a dial ends although the server does not answer.
func TestDialEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reason := errors.New("the process ends")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, reason)
	defer cancel()
	for _, scheme := range []string{"ws://", "wss://"} {
		if _, err := DialWebSocket(ctx, scheme+l.Addr().String(), ""); !errors.Is(err, reason) {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

func TestPeerThatLeaves(t *testing.T) {
	for want, leave := range map[string]func(*websocket.Conn) error{
		"closed the connection: going down (1001)": func(ws *websocket.Conn) error { return ws.Close(websocket.StatusGoingAway, "going down") },
		"closed the connection (1000)":             func(ws *websocket.Conn) error { return ws.Close(websocket.StatusNormalClosure, "") },
		"broke off":                                (*websocket.Conn).CloseNow,
	} {
		address, _ := socketServer(t, func(ws *websocket.Conn, _ <-chan struct{}) { _ = leave(ws) })
		s := dialSocket(t, address, "")
		if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestPeerThatDoesNotRead checks that neither a write to a peer that does not read nor
// Close waits for long.
func TestPeerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	address, _ := socketServer(t, func(_ *websocket.Conn, quit <-chan struct{}) { <-quit })
	s := dialSocket(t, address, "")
	if err := s.Write(make([]byte, 64<<20), 50*time.Millisecond); err == nil {
		t.Error("64 MiB went nowhere")
	}
	s = dialSocket(t, address, "")
	reading := make(chan error, 1)
	go func() {
		_, err := s.Read()
		reading <- err
	}()
	begin := time.Now()
	_ = s.Close()
	if took := time.Since(begin); took > patience {
		t.Errorf("closing took %s", took)
	}
	if err := <-reading; err == nil {
		t.Error("the reader got something")
	}
}

// TestWebSocketCutsLongMessages checks that a message of several frames arrives whole.
func TestWebSocketCutsLongMessages(t *testing.T) {
	const size = maxFrame + 1
	read := make(chan int, 1)
	address, _ := socketServer(t, func(ws *websocket.Conn, quit <-chan struct{}) {
		_, message, err := ws.Read(context.Background())
		if err != nil || bytes.Count(message, []byte("x")) != len(message) {
			t.Errorf("it came as %d bytes (%v)", len(message), err)
		}
		read <- len(message)
		<-quit
	})
	s := dialSocket(t, address, "")
	if err := s.Write(bytes.Repeat([]byte("x"), size), patience); err != nil {
		t.Fatal(err)
	}
	if n := <-read; n != size {
		t.Errorf("%d bytes of %d", n, size)
	}
}

// TestTooLargeACall checks that a call that is too large for the transport is refused
// and the connection goes on.
func TestTooLargeACall(t *testing.T) {
	if n := (&WebSocket{}).MaxWrite(); n != maxSentMessage {
		t.Errorf("a WebSocket takes %d bytes", n)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := NewConn(narrow{p}, nil)
		defer c.Close()
		thread := openThread(t, c, p, "thr-1")
		item := json.RawMessage(`"` + strings.Repeat("x", narrow{}.MaxWrite()) + `"`)
		var refused *CallError
		if err := thread.InjectItems(t.Context(), []json.RawMessage{item}); !errors.As(err, &refused) || !strings.Contains(string(refused.Data), "input_too_large") {
			t.Errorf("got %v", err)
		}
		done := listModels(t.Context(), c)
		p.answer(p.expect(methodModelList), `{"data":[]}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// narrow is a transport for short messages.
type narrow struct{ *peer }

func (narrow) MaxWrite() int { return 1000 }
