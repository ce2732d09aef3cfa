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

// network is what the server listens to.
type network struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newNetwork() *network {
	return &network{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a client.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listening.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr is where the server is.
func (n *network) Addr() net.Addr { return address("127.0.0.1:80") }

// link is how one connection of a client behaves.
type link struct {
	Room      int  // of the way to the client, in bytes
	Pieces    int  // reads bring at most so many bytes; 0: all that are there
	CutSent   int  // cut when the client has sent so many bytes; 0: not
	CutGot    int  // cut when the client has got so many bytes; 0: not
	Reset     bool // a cut loses what is on its way
	PieceSeed uint64
}

// dial connects a client.
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

// conn is one side of a connection.
type conn struct{ in, out *pipe }

func (c *conn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.Write(b) }

// Close ends both ways: the other side reads what is on its way.
func (c *conn) Close() error {
	c.out.end(io.EOF)
	c.in.cut(net.ErrClosed, 0)
	return nil
}

// reset ends both ways at once.
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

// clientConn is a client's side, which may cut the connection at a byte.
type clientConn struct {
	conn
	link link

	mu        sync.Mutex
	sent, got int
	gone      bool // the cut has come
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

// until counts bytes up to those after which the connection is cut.
func (c *clientConn) until(count *int, most, n int) (now int, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most > 0 && *count < most && *count+n >= most {
		n, cut = most-*count, true
	}
	*count += n
	return n, cut
}

// leave cuts the connection.
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

// left reports whether the client has cut the connection by itself.
func (c *clientConn) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}
