package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// The bounds of a WebSocket.
const (
	// dialTimeout bounds a whole dial: connecting, TLS and the upgrade to a WebSocket. The context
	// may end the dial earlier.
	dialTimeout = 10 * time.Second
	// maxFrame bounds a frame to the app-server, in bytes. If a frame has more than 16 MiB, Codex
	// ends the connection with all its turns. maxFrame is far smaller, so that Progress, which
	// counts frames, grows often.
	maxFrame = 1 << 20
	// maxSentMessage bounds a message to the app-server, in bytes. If a message is larger, Codex
	// ends the connection.
	maxSentMessage = 64 << 20
	// closeGrace is how long Close waits for the closing handshake. After that, Close ends the
	// connection without it.
	closeGrace = time.Second
)

// WebSocket is the transport over a WebSocket. Each message is one text message of the WebSocket.
type WebSocket struct {
	ws        *websocket.Conn
	raw       net.Conn      // the TCP or unix connection below ws and its TLS
	progress  atomic.Uint64 // see Progress
	buf       []byte        // the last message
	limit     int           // bounds a message to read, in bytes; MaxMessage except in tests
	closeOnce sync.Once
	closeErr  error
}

// DialWebSocket connects to an app-server that is already running. The address is ws://HOST:PORT,
// wss://HOST or, for a unix socket in Caddy's notation, unix//path/of.sock. A token that is not
// empty is sent as a bearer token. Errors say what an operator can do. For a valid address, they
// match [ErrUnreachable] or [ErrRefused].
func DialWebSocket(ctx context.Context, address, token string) (*WebSocket, error) {
	remote, err := parseEndpoint(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("it did not answer within %s: %w", dialTimeout, ErrTimeout))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, remote.network, remote.address)
	if err != nil {
		return nil, dialError(ctx, address, err)
	}
	s := &WebSocket{limit: MaxMessage}
	s.raw = &countedConn{Conn: conn, r: countedReader{conn, &s.progress}}
	header := make(http.Header)
	if token = strings.TrimSpace(token); token != "" { // a token from a file may end with a line end
		header.Set("Authorization", "Bearer "+token)
	}
	// The body of the response need not be closed.
	ws, response, err := websocket.Dial(ctx, remote.url, &websocket.DialOptions{HTTPClient: s.client(), HTTPHeader: header})
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

// client returns an HTTP client that uses s.raw as its connection. The client follows no
// redirections, since the token is for this address only.
func (s *WebSocket) client() *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return s.raw, nil }
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// countedConn is a connection that counts the reads that returned data.
type countedConn struct {
	net.Conn
	r countedReader
}

func (c *countedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Progress returns a count that grows with each read from the connection and each written frame of
// a long message. It does not count small written messages, since the system buffers them even if
// the other side reads nothing.
func (s *WebSocket) Progress() uint64 { return s.progress.Load() }

// Read returns the next message.
func (s *WebSocket) Read() ([]byte, error) {
	_, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return nil, s.endError(err)
	}
	if cap(s.buf) > maxKeptLine {
		s.buf = nil // drops the message of the previous Read, since its buffer is too large to keep
	}
	s.buf = s.buf[:0]
	for {
		if len(s.buf) == cap(s.buf) {
			s.buf = slices.Grow(s.buf, max(readBuffer, len(s.buf))) // doubles the capacity
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

// skip reads and drops the rest of a message that is too large.
func (s *WebSocket) skip(r io.Reader) error {
	skipped := &tooLargeError{limit: s.limit}
	_, _ = skipped.Write(s.buf)
	s.buf = nil
	if _, err := io.Copy(skipped, r); err != nil {
		return s.endError(err)
	}
	return skipped
}

// endError returns an error that says in plain words that the app-server closed the connection, or
// that the connection broke off. If err means neither of these, endError returns err unchanged.
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

// Write sends one message. It splits a long message into several frames.
func (s *WebSocket) Write(message []byte, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := s.write(ctx, message); err != nil {
		return s.endError(err) // Write may notice the end of the connection before Read does
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
		s.progress.Add(1)
	}
	return w.Close()
}

// MaxWrite returns the size of the largest message that the app-server accepts over a WebSocket, in
// bytes. A larger message would end the connection.
func (s *WebSocket) MaxWrite() int { return maxSentMessage }

// Close ends the connection. It waits at most closeGrace for the closing handshake.
func (s *WebSocket) Close() error {
	s.closeOnce.Do(func() {
		timer := time.AfterFunc(closeGrace, func() { _ = s.raw.Close() })
		defer timer.Stop()
		s.closeErr = s.ws.Close(websocket.StatusNormalClosure, "")
	})
	return s.closeErr
}

// unixPrefix is how the address of a unix socket begins in Caddy's notation: unix//run/codex.sock
// means the socket /run/codex.sock.
const unixPrefix = "unix/"

// endpointForms lists the accepted forms of an address, for error messages.
const endpointForms = "ws://host:port, wss://host:port or unix//path"

// endpoint is a parsed address of a remote app-server, ready to be dialled.
type endpoint struct {
	url     string // ws:// or wss://
	network string // the network of address: tcp or unix
	address string
}

// maxSocketPath is how long the path of a unix socket may be, in bytes.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckAddress returns an error if the address does not have a form that [DialWebSocket] accepts.
// The error contains no part of the address that may be a secret.
func CheckAddress(address string) error {
	_, err := parseEndpoint(address)
	return err
}

func parseEndpoint(address string) (endpoint, error) {
	if socket, ok := strings.CutPrefix(address, unixPrefix); ok {
		return parseSocket(socket)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return endpoint{}, fmt.Errorf("the address must be %s", endpointForms) // the text of err may hold a secret
	case u.Scheme != "ws" && u.Scheme != "wss":
		return endpoint{}, fmt.Errorf("the address must be %s, not %s", endpointForms, u.Redacted())
	case u.User != nil:
		return endpoint{}, errors.New("the address must hold no user or password; the token is given apart from it")
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("the address must be %s, with a host", endpointForms)
	case u.Fragment != "" || u.RawQuery != "" || u.ForceQuery:
		return endpoint{}, fmt.Errorf("the address of %s must end with its path, without a query or a fragment", u.Host)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, fmt.Errorf("the address of %s has a port that is not between 1 and 65535", u.Hostname())
	}
	// websocket.Dial parses the URL again as http or https, with stricter rules: ws://:: is valid,
	// but http://:: is not.
	if _, err := url.Parse("http" + strings.TrimPrefix(u.String(), "ws")); err != nil {
		return endpoint{}, fmt.Errorf("the address of %s must be %s", u.Hostname(), endpointForms)
	}
	return endpoint{url: u.String(), network: "tcp", address: net.JoinHostPort(u.Hostname(), port)}, nil
}

// parseSocket returns the endpoint for the path of a unix socket.
func parseSocket(socket string) (endpoint, error) {
	clean := path.Clean(socket)
	switch {
	case !path.IsAbs(socket) || clean == "/":
		return endpoint{}, errors.New("a unix socket is written unix//path, with its whole path")
	case len(clean) > maxSocketPath || strings.ContainsRune(clean, 0):
		return endpoint{}, fmt.Errorf("the path of a unix socket has at most %d bytes, none of them zero", maxSocketPath)
	}
	return endpoint{url: "ws://localhost/", network: "unix", address: clean}, nil
}

// maxRefusal bounds what refusalError quotes of the body of an HTTP response, in bytes.
const maxRefusal = 200

// dialError adds to err, the error of a dial, what an operator can do.
func dialError(ctx context.Context, address string, err error) error {
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w to %s: nobody listens there; start the app-server there with `codex app-server --listen …` (%w)", ErrUnreachable, address, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w to %s: this user may not use the socket; run the app-server as the same user, or give this one access (%w)", ErrUnreachable, address, err)
	}
	return fmt.Errorf("%w to %s: %w; check the address, and that the app-server runs there", ErrUnreachable, address, err)
}

// refusalError returns the error for a server that has answered with an HTTP response instead of a
// WebSocket. The error says what an operator can do.
func refusalError(address string, withToken bool, response *http.Response) error {
	bodyText := ""
	if response.Body != nil {
		// websocket.Dial has replaced the body by its beginning, in memory.
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		if text := strings.ToValidUTF8(strings.Join(strings.Fields(string(body)), " "), ""); text != "" {
			bodyText = ": " + text
		}
	}
	sentinel, advice := ErrRefused, "no WebSocket is served there; check the address"
	switch {
	case response.StatusCode == http.StatusUnauthorized && withToken:
		advice = "the token is not the one it was started with (--ws-token-file)"
	case response.StatusCode == http.StatusUnauthorized:
		advice = "it wants a token; configure the one it was started with (--ws-token-file)"
	case response.StatusCode == http.StatusForbidden:
		advice = "something there forbids it; codex itself refuses requests with an Origin header, which a proxy must not add"
	case response.StatusCode >= http.StatusInternalServerError:
		sentinel, advice = ErrUnreachable, "the server in front of it does not reach it; start the app-server there with `codex app-server --listen …`"
	}
	return fmt.Errorf("%s: %w: %s (HTTP %d%s)", address, sentinel, advice, response.StatusCode, bodyText)
}
