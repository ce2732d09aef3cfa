package redisserver

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Proxy is a network between a server and its clients.
type Proxy struct {
	Addr string // host and port

	mu    sync.Mutex
	delay time.Duration // of what clients send
	cut   chan struct{} // not nil: nothing passes until it is closed
}

// NewProxy starts a proxy before a server. It ends with the test.
func (s *Server) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	p := &Proxy{Addr: listener.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", s.Addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			all.Go(func() { p.copy(server, client, true) })
			all.Go(func() { p.copy(client, server, false) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.Mend()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// copy passes on what arrives, until one of the connections ends.
func (p *Proxy) copy(to, from net.Conn, requests bool) {
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		delay, cut := p.delay, p.cut
		p.mu.Unlock()
		if cut != nil {
			<-cut
		}
		if requests {
			time.Sleep(delay)
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Slow delays what clients send.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Cut lets nothing pass any more, as a network that drops packets: connections stay open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = make(chan struct{})
}

// Mend ends what Slow and Cut have begun. What was sent after Cut arrives late.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		close(p.cut)
	}
	p.cut, p.delay = nil, 0
}
