package codexrpc

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// peer is a Transport whose other end, the app-server's, is played by the test over channels. In a
// synctest bubble a message that never comes is a deadlock and not a hanging test.
type peer struct {
	t          *testing.T
	last       []byte // the line that Read has returned last
	toClient   chan []byte
	fromClient chan []byte
	closed     chan struct{}
	once       sync.Once
}

// Read returns the next line that the test sends. It overwrites the line before, so that
// nothing that has kept a part of it stays unnoticed.
func (p *peer) Read() ([]byte, error) {
	for i := range p.last {
		p.last[i] = '!'
	}
	select {
	case line, ok := <-p.toClient:
		if !ok {
			return nil, io.EOF
		}
		p.last = line
		return line, nil
	case <-p.closed:
		return nil, os.ErrClosed
	}
}

// Write waits until the test receives the message, like a pipe without a buffer. It overwrites the
// message afterwards, as the next call may do.
func (p *peer) Write(message []byte, timeout time.Duration) error {
	defer func() {
		for i := range message {
			message[i] = '!'
		}
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case p.fromClient <- append([]byte(nil), message...):
		return nil
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-p.closed:
		return os.ErrClosed
	}
}

func (p *peer) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

type heard struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *outgoingError  `json:"error"`
}

// hear receives the client's next message.
func (p *peer) hear() heard {
	p.t.Helper()
	line := <-p.fromClient
	var h heard
	if err := json.Unmarshal(line, &h); err != nil {
		p.t.Fatalf("the client wrote %q: %v", line, err)
	}
	return h
}

func (p *peer) expect(method string) heard {
	p.t.Helper()
	h := p.hear()
	if h.Method != method {
		p.t.Fatalf("heard %s %s, want %s", h.Method, h.Params, method)
	}
	return h
}

func (p *peer) silent() {
	p.t.Helper()
	synctest.Wait()
	select {
	case line := <-p.fromClient:
		p.t.Fatalf("heard %.300s, want nothing", line)
	default:
	}
}

func (p *peer) say(format string, args ...any) {
	p.t.Helper()
	line := fmt.Appendf(nil, format, args...)
	select {
	case p.toClient <- line:
	case <-p.closed:
		p.t.Fatalf("the client hung up before %.200s", line)
	}
}

// answer answers a call with a result, a JSON text.
func (p *peer) answer(h heard, result string) {
	p.t.Helper()
	p.say(`{"id":%s,"result":%s}`, h.ID, result)
}

func (p *peer) refuse(h heard, code int, message string) {
	p.t.Helper()
	p.say(`{"id":%s,"error":{"code":%d,"message":%q}}`, h.ID, code, message)
}

func (p *peer) notify(method, params string) {
	p.t.Helper()
	p.say(`{"method":%q,"params":%s,"emittedAtMs":0}`, method, params)
}

func (p *peer) delta(thread, turn, text string) {
	p.t.Helper()
	p.notify(methodTextDelta, fmt.Sprintf(`{"threadId":%q,"turnId":%q,"itemId":"msg-1","delta":%q}`, thread, turn, text))
}

func (p *peer) completed(thread, turn, status string) {
	p.t.Helper()
	p.notify(methodTurnCompleted, fmt.Sprintf(`{"threadId":%q,"turn":{"id":%q,"status":%q,"error":null}}`, thread, turn, status))
}

// newPeer is a peer without a client, for a transport around it.
func newPeer(t *testing.T) *peer {
	return &peer{
		t:          t,
		toClient:   make(chan []byte),
		fromClient: make(chan []byte),
		closed:     make(chan struct{}),
	}
}

// dial makes a connection to a peer. Both end with the test.
func dial(t *testing.T) (*Conn, *peer) {
	p := newPeer(t)
	c := NewConn(p, Options{})
	t.Cleanup(func() { _ = c.Close() })
	return c, p
}

// withPeer runs a test in a bubble, with a connection to a peer.
func withPeer(t *testing.T, test func(t *testing.T, c *Conn, p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		test(t, c, p)
	})
}

// dialLogged is dial with a log.
func dialLogged(t *testing.T) (*Conn, *peer, *logbook.Book) {
	p, log := newPeer(t), new(logbook.Book)
	c := NewConn(p, Options{Logger: log.Logger})
	t.Cleanup(func() { _ = c.Close() })
	return c, p, log
}

func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// errOf is the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

func openThread(t *testing.T, c *Conn, p *peer, id string) *Thread {
	t.Helper()
	var thread *Thread
	done := async(func() (err error) {
		thread, err = c.StartThread(t.Context(), ThreadStartParams{})
		return err
	})
	p.answer(p.expect(methodThreadStart), fmt.Sprintf(`{"thread":{"id":%q}}`, id))
	must.OK(t, <-done)
	return thread
}

func openTurn(t *testing.T, c *Conn, p *peer, id, turn string) *Thread {
	t.Helper()
	thread := openThread(t, c, p, id)
	startTurn(t, p, thread, turn)
	return thread
}

func startTurn(t *testing.T, p *peer, thread *Thread, turn string) {
	t.Helper()
	done := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
	p.answer(p.expect(methodTurnStart), fmt.Sprintf(`{"turn":{"id":%q}}`, turn))
	must.OK(t, <-done)
}

// texts receives events and joins the texts of the deltas with a bar.
func texts(t *testing.T, thread *Thread) string {
	t.Helper()
	synctest.Wait()
	events, err := thread.Recv()
	must.OK(t, err)
	var parts []string
	for _, e := range events {
		if e.Kind == EventTextDelta {
			parts = append(parts, e.Text)
		}
	}
	return strings.Join(parts, "|")
}
