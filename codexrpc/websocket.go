package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// The bounds of a WebSocket.
const (
	// dialTimeout bounds a dial whose context does not: the connection, TLS and
	// the upgrade.
	dialTimeout = 10 * time.Second
	// maxFrame bounds a frame of ours, in bytes. Above 16 MiB codex ends the
	// connection with all its turns. It is smaller, since each written frame counts
	// as progress.
	maxFrame = 1 << 20
	// maxSent bounds a message of ours, in bytes. Codex ends the connection above it.
	maxSent = 64 << 20
	// closeGrace bounds the closing handshake, which is optional.
	closeGrace = time.Second
)

// WebSocket is the transport over a WebSocket: one message a text frame.
type WebSocket struct {
	ws    *websocket.Conn
	raw   net.Conn      // below ws and its TLS
	moved atomic.Uint64 // see Progress
	buf   []byte        // of the last message
	limit int
	once  sync.Once
	err   error
}

// DialWebSocket connects to an app-server that listens elsewhere. The address
// is ws://HOST:PORT, wss://HOST or, in Caddy's notation for a unix socket,
// unix//path/of.sock. The token is sent as a bearer token, unless it is empty.
// Errors match [ErrUnreachable] or [ErrRefused] and say what an operator can do.
func DialWebSocket(ctx context.Context, address, token string) (*WebSocket, error) {
	at, err := parseEndpoint(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("it did not answer within %s: %w", dialTimeout, ErrTimeout))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, at.network, at.address)
	if err != nil {
		return nil, dialError(ctx, address, err)
	}
	s := &WebSocket{limit: MaxMessage}
	s.raw = &countedConn{Conn: conn, r: countedReader{conn, &s.moved}}
	header := make(http.Header)
	if token = strings.TrimSpace(token); token != "" { // a file's last line end is no part of it
		header.Set("Authorization", "Bearer "+token)
	}
	//nolint:bodyclose // websocket.Dial: the body of the response need not be closed
	ws, response, err := websocket.Dial(ctx, at.url, &websocket.DialOptions{HTTPClient: s.client(), HTTPHeader: header})
	if err != nil {
		_ = conn.Close()
		if response != nil {
			return nil, refusalError(address, token != "", response)
		}
		return nil, dialError(ctx, address, err)
	}
	ws.SetReadLimit(-1) // Read has a limit of its own, which does not end the connection
	s.ws = ws
	return s, nil
}

// client returns an HTTP client for the upgrade of the connection. It does not
// follow redirections, since the token is for this address only.
func (s *WebSocket) client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return s.raw, nil }
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// countedConn counts the reads of a connection that returned data.
type countedConn struct {
	net.Conn
	r countedReader
}

func (c *countedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Progress grows with each read, also within a message, and each written frame of a
// long message. Small messages do not count: buffers take them though nobody reads.
func (s *WebSocket) Progress() uint64 { return s.moved.Load() }

// Read returns the next message.
func (s *WebSocket) Read() ([]byte, error) {
	_, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return nil, s.endError(err)
	}
	if cap(s.buf) > keptLine {
		s.buf = nil // the message of the Read before
	}
	s.buf = s.buf[:0]
	for {
		if len(s.buf) == cap(s.buf) {
			s.buf = slices.Grow(s.buf, max(readBuffer, len(s.buf))) // doubles
		}
		n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		switch {
		case len(s.buf) > s.limit:
			return nil, s.skip(r)
		case errors.Is(err, io.EOF):
			return s.buf, nil
		case err != nil:
			return nil, s.endError(err)
		}
	}
}

// skip drops the rest of a message that is too large.
func (s *WebSocket) skip(r io.Reader) error {
	s.buf = nil
	if _, err := io.Copy(io.Discard, r); err != nil {
		return s.endError(err)
	}
	return fmt.Errorf("a frame of more than %d bytes: %w", s.limit, ErrMessageTooLarge)
}

// endError makes the end of the connection readable.
func (s *WebSocket) endError(err error) error {
	closed := websocket.CloseError{}
	switch {
	case errors.As(err, &closed) && closed.Reason != "":
		return fmt.Errorf("the app-server closed the connection: %s (%d)", closed.Reason, closed.Code)
	case errors.As(err, &closed):
		return fmt.Errorf("the app-server closed the connection (%d)", closed.Code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errors.New("the app-server's connection broke off")
	}
	return err
}

// Write sends one message, in one text frame or, if it is long, in several.
func (s *WebSocket) Write(message []byte, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.write(ctx, message); err != nil {
		return s.endError(err) // a writer may notice the end before the reader
	}
	return nil
}

func (s *WebSocket) write(ctx context.Context, message []byte) error {
	if len(message) <= maxFrame {
		return s.ws.Write(ctx, websocket.MessageText, message)
	}
	w, err := s.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for frame := range slices.Chunk(message, maxFrame) {
		if _, err := w.Write(frame); err != nil {
			return err
		}
		s.moved.Add(1)
	}
	return w.Close()
}

// MaxWrite is the largest message that the app-server takes over a WebSocket, in
// bytes. A larger one would end the connection.
func (s *WebSocket) MaxWrite() int { return maxSent }

// Close ends the connection, with a closing handshake if the peer answers in time.
func (s *WebSocket) Close() error {
	s.once.Do(func() {
		timer := time.AfterFunc(closeGrace, func() { _ = s.raw.Close() })
		defer timer.Stop()
		s.err = s.ws.Close(websocket.StatusNormalClosure, "")
	})
	return s.err
}
