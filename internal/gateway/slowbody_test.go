package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestSilentBodyIsAnswered: over HTTP/1 the end of the reading ends the context
// of the request, and its client is still told why.
func TestSilentBodyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, end := sendSilentBody(noUpstream{})
		defer end()
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("it is answered with %s", response.Status)
		}
	})
}

// TestSilentBodyAtExit: a request that comes when the server exits is refused at once, and its
// connection ends although the body does not come.
func TestSilentBodyAtExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, end := sendSilentBody(exitingUpstream{})
		defer end()
		answer, err := io.ReadAll(client)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 503 ")) || !bytes.Contains(answer, []byte(`"server_shutting_down"`)) {
			t.Errorf("%v %s", err, answer)
		}
	})
}

// sendSilentBody sends a request whose body does not come to its end. end ends the connection
// and the server.
func sendSilentBody(upstream conversation.Upstream) (client net.Conn, end func()) {
	g := newGateway(upstream, Options{MaxConcurrent: 1})
	client, conn := net.Pipe()
	server := &http.Server{Handler: http.HandlerFunc(g.Chat)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(&oneConn{conn: conn}) })
	go func() {
		_, _ = client.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"))
	}()
	return client, func() {
		_ = client.Close()
		_ = server.Close()
		serving.Wait()
	}
}

// exitingUpstream leases nothing any more.
type exitingUpstream struct{}

func (exitingUpstream) Lease() (conversation.Lease, error) { return nil, turn.ErrShutdown }

// noUpstream has app-servers that nobody may ask for.
type noUpstream struct{}

func (noUpstream) Lease() (conversation.Lease, error) { return &fakeLease{u: &fakeUpstream{}}, nil }

// oneConn listens to one connection.
type oneConn struct {
	once sync.Once
	conn net.Conn
}

// Accept gives the connection, once.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	err = net.ErrClosed
	l.once.Do(func() { conn, err = l.conn, nil })
	return conn, err
}

// Close ends nothing.
func (l *oneConn) Close() error { return nil }

// Addr is that of the connection.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
