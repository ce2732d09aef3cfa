package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// network is the listener of the server.
type network struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newNetwork() *network {
	return &network{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *network) Addr() net.Addr { return address("127.0.0.1:80") }

// link is the behaviour of one connection of a client.
type link struct {
	Room      int  // bytes of the buffer to the client
	Pieces    int  // maximum bytes of a read; 0 for no limit
	CutSent   int  // bytes sent by the client before a cut; 0 for no cut
	CutGot    int  // bytes received by the client before a cut; 0 for no cut
	Reset     bool // a cut loses bytes in transit
	PieceSeed uint64
}

func (n *network) dial(ctx context.Context, l link) (*clientConn, error) {
	up, down := newPipe(0), newPipe(l.Room)
	if l.Pieces > 0 {
		for i, p := range []*pipe{up, down} {
			random := rand.New(rand.NewPCG(l.PieceSeed, uint64(i)))
			p.most = func() int { return 1 + random.IntN(l.Pieces) }
		}
	}
	server := &conn{in: up, out: down}
	client := &clientConn{conn: conn{in: down, out: up}, link: l}
	select {
	case n.accepted <- server:
		return client, nil
	case <-n.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type conn struct{ in, out *pipe }

func (c *conn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.Write(b) }

// Close closes both directions. The other side can read bytes in transit.
func (c *conn) Close() error {
	c.out.end(io.EOF)
	c.in.cut(net.ErrClosed, 0)
	return nil
}

// reset closes both directions and drops bytes in transit.
func (c *conn) reset() {
	c.out.cut(syscall.ECONNRESET, 0)
	c.in.cut(syscall.ECONNRESET, 0)
}

func (c *conn) LocalAddr() net.Addr  { return address("127.0.0.1:1") }
func (c *conn) RemoteAddr() net.Addr { return address("127.0.0.1:2") }

func (c *conn) SetDeadline(at time.Time) error {
	_ = c.SetReadDeadline(at)
	return c.SetWriteDeadline(at)
}

func (c *conn) SetReadDeadline(at time.Time) error {
	c.in.set(&c.in.readBy, at)
	return nil
}

func (c *conn) SetWriteDeadline(at time.Time) error {
	c.out.set(&c.out.writeBy, at)
	return nil
}

type address string

func (address) Network() string  { return "sim" }
func (a address) String() string { return string(a) }

// clientConn is the client's side, which may cut the connection at a byte.
type clientConn struct {
	conn
	link link

	mu        sync.Mutex
	sent, got int
	gone      bool // it was cut
}

// Write writes up to the byte of the cut.
func (c *clientConn) Write(b []byte) (int, error) {
	now, cut := c.until(&c.sent, c.link.CutSent, len(b))
	n, err := c.conn.Write(b[:now])
	if cut {
		c.leave()
		return n, syscall.ECONNRESET
	}
	return n, err
}

// Read reads up to the byte of the cut.
func (c *clientConn) Read(b []byte) (int, error) {
	if c.link.CutGot > 0 {
		c.mu.Lock()
		b = b[:min(len(b), max(1, c.link.CutGot-c.got))]
		c.mu.Unlock()
	}
	n, err := c.conn.Read(b)
	if _, cut := c.until(&c.got, c.link.CutGot, n); cut {
		c.leave()
	}
	return n, err
}

// until counts bytes, and reports whether the connection is to be cut after them.
func (c *clientConn) until(count *int, most, n int) (now int, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most > 0 && *count < most && *count+n >= most {
		n, cut = most-*count, true
	}
	*count += n
	return n, cut
}

func (c *clientConn) leave() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	if c.link.Reset {
		c.reset()
	} else {
		_ = c.Close()
	}
}

func (c *clientConn) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}
