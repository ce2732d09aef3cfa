package planbackend

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// headerTimeout is how long a client may take to ask for a tunnel, or for a request's header.
const headerTimeout = 10 * time.Second

// proxy takes CONNECT, and is the listener of what arrives in the tunnels.
type proxy struct {
	listener net.Listener
	refuses  func() bool // whether new connections are reset
	tunnels  chan net.Conn
	done     chan struct{} // closed when it is closed

	mu      sync.Mutex
	open    map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

func newProxy(listener net.Listener, refuses func() bool) *proxy {
	p := &proxy{
		listener: listener, refuses: refuses,
		tunnels: make(chan net.Conn), done: make(chan struct{}), open: make(map[net.Conn]bool),
	}
	p.running.Go(p.accept)
	return p
}

// accept takes connections until the proxy is closed.
func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.add(conn) {
			return
		}
		p.running.Go(func() {
			if !p.connect(conn) {
				p.remove(conn)
			}
		})
	}
}

// connect answers a request for a tunnel and hands it on. It returns false if there is none.
func (p *proxy) connect(conn net.Conn) bool {
	if p.refuses() {
		reset(conn)
		return false
	}
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err != nil || request.Method != http.MethodConnect || reader.Buffered() > 0 {
		return false
	}
	if p.refuses() {
		reset(conn)
		return false
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	select {
	case p.tunnels <- &tunnel{Conn: conn, proxy: p}:
		return true
	case <-p.done:
		return false
	}
}

// tunnel is a connection that leaves the proxy when it is closed.
type tunnel struct {
	net.Conn
	proxy *proxy
}

func (t *tunnel) Close() error {
	t.proxy.remove(t.Conn)
	return nil
}

// add keeps a connection, so that it can be cut. It returns false after Close.
func (p *proxy) add(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	p.open[conn] = true
	return true
}

func (p *proxy) remove(conn net.Conn) {
	p.mu.Lock()
	delete(p.open, conn)
	p.mu.Unlock()
	_ = conn.Close() // the other end may have been first
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		reset(conn)
	}
}

// reset ends a connection without the usual end, so that the other side sees an error.
func reset(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*tunnel); ok {
		conn = t.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails for a closed one
	}
	_ = conn.Close()
}

// Accept implements [net.Listener].
func (p *proxy) Accept() (net.Conn, error) {
	select {
	case conn := <-p.tunnels:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (p *proxy) Addr() net.Addr { return p.listener.Addr() }

// Close implements [net.Listener]. It cuts all connections.
func (p *proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if !first {
		return nil
	}
	close(p.done)
	err := p.listener.Close()
	p.cut()
	p.running.Wait()
	return err
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// breakOff ends the connection of a request without an answer.
func breakOff(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		reset(conn)
	}
	panic(http.ErrAbortHandler) // net/http then leaves it alone
}
