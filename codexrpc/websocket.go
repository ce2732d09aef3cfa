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
	// pingEvery is the pause between the pings that find a peer dead from which
	// nothing else is expected.
	pingEvery = 20 * time.Second
	// pongTimeout is how long a peer may then be silent, pongs and messages
	// alike. A busy app-server answers within milliseconds, but a ping may have
	// to wait for a message that is being written.
	pongTimeout = writeTimeout
	// maxFrame bounds a frame of ours, in bytes: above 16 MiB codex ends the
	// connection, and with it the turns of everybody.
	maxFrame = 4 << 20
	// maxSent bounds a message of ours, in bytes, for the same reason.
	maxSent = 64 << 20
	// closeGrace bounds the closing handshake. It is a courtesy: the end of the
	// connection says the same.
	closeGrace = time.Second
)

// WebSocket is the transport over a WebSocket: one message a text frame.
type WebSocket struct {
	ws    *websocket.Conn
	raw   net.Conn     // below ws and its TLS
	heard atomic.Int64 // when something was read, in nanoseconds of the epoch
	dead  atomic.Bool  // nothing was read for too long
	buf   []byte       // of the last message
	limit int

	pingEvery, pongTimeout time.Duration
	pinger                 sync.WaitGroup
	quit                   chan struct{}
	once                   sync.Once
	err                    error
}

// DialWebSocket connects to an app-server that listens elsewhere. The address
// is ws://HOST:PORT, wss://HOST or, in Caddy's notation for a unix socket,
// unix//path/of.sock. The token, unless it is empty, is sent as a bearer token.
// An error says what an operator can do about it.
func DialWebSocket(ctx context.Context, address, token string) (*WebSocket, error) {
	return dialWebSocket(ctx, address, token, pingEvery, pongTimeout)
}

func dialWebSocket(ctx context.Context, address, token string, pingEvery, pongTimeout time.Duration) (*WebSocket, error) {
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
	s := &WebSocket{limit: MaxMessage, pingEvery: pingEvery, pongTimeout: pongTimeout, quit: make(chan struct{})}
	s.raw = &heardConn{Conn: conn, heard: &s.heard}
	header := make(http.Header)
	if token = strings.TrimSpace(token); token != "" { // a file's last line end is no part of it
		header.Set("Authorization", "Bearer "+token)
	}
	ws, response, err := websocket.Dial(ctx, at.url, &websocket.DialOptions{HTTPClient: s.client(), HTTPHeader: header})
	if err != nil {
		_ = conn.Close()
		if response != nil {
			return nil, refusalError(address, token != "", response)
		}
		return nil, dialError(ctx, address, err)
	}
	ws.SetReadLimit(-1) // Read has a limit after which the connection goes on
	s.ws = ws
	s.pinger.Go(s.ping)
	return s, nil
}

// client asks for the upgrade on the connection that is there. A redirection is
// not followed, since the token is for this address alone.
func (s *WebSocket) client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return s.raw, nil }
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// heardConn notes when something was read. A pong can wait behind a message of
// many megabytes; the message's own bytes say that the peer lives.
type heardConn struct {
	net.Conn
	heard *atomic.Int64
}

// Read reads and notes when.
func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

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

// skip reads the rest of a message that is too large.
func (s *WebSocket) skip(r io.Reader) error {
	s.buf = nil
	if _, err := io.Copy(io.Discard, r); err != nil {
		return s.endError(err)
	}
	return fmt.Errorf("a frame of more than %d bytes: %w", s.limit, ErrMessageTooLarge)
}

// endError says how the connection ended.
func (s *WebSocket) endError(err error) error {
	closed := websocket.CloseError{}
	switch {
	case s.dead.Load():
		return fmt.Errorf("the app-server has not answered a ping for %s", s.pongTimeout)
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
	}
	return w.Close()
}

// MaxWrite is the largest message that the app-server takes over a WebSocket, in
// bytes. A larger one would end the connection.
func (s *WebSocket) MaxWrite() int { return maxSent }

// ping looks for a peer that is gone without a word, and ends the connection
// then: the reader's error is what the connection hears of it.
func (s *WebSocket) ping() {
	ticker := time.NewTicker(s.pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.quit:
			return
		}
		if s.answers() {
			continue
		}
		s.dead.Store(true)
		_ = s.raw.Close()
		return
	}
}

// answers pings and waits until something comes, a pong or another frame.
func (s *WebSocket) answers() bool {
	asked := time.Now().UnixNano()
	ctx, cancel := context.WithTimeout(context.Background(), s.pongTimeout)
	defer cancel()
	return s.ws.Ping(ctx) == nil || s.heard.Load() > asked
}

// Close ends the connection, after a word to the peer if it takes one.
func (s *WebSocket) Close() error {
	s.once.Do(func() {
		close(s.quit)
		timer := time.AfterFunc(closeGrace, func() { _ = s.raw.Close() })
		defer timer.Stop()
		s.err = s.ws.Close(websocket.StatusNormalClosure, "")
		s.pinger.Wait()
	})
	return s.err
}
