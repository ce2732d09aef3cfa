package imagefetch

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// zone is a name server with one address per answer. Each question about a name
// gets the next of its addresses; the last one is repeated.
type zone struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
}

// answer returns the response to a query with one question (RFC 1035, section 4).
func (z *zone) answer(query []byte) []byte {
	var labels []string
	end := 12
	for ; query[end] != 0; end += int(query[end]) + 1 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
	}
	kind := query[end+2]
	end += 5 // the root, and the type and class
	response := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	z.mu.Lock()
	defer z.mu.Unlock()
	name := strings.ToLower(strings.Join(labels, "."))
	addrs := z.names[name]
	if len(addrs) == 0 {
		response[3] |= 3 // no such name
		return response
	}
	if is4 := addrs[0].Is4(); is4 != (kind == 1) {
		return response // the name has no address of this kind
	}
	response[7] = 1
	data := addrs[0].AsSlice()
	response = append(response, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
	if len(addrs) > 1 {
		z.names[name] = addrs[1:]
	}
	return append(response, data...)
}

// dial connects a resolver to the zone. Each message has a length before it, as
// over TCP.
func (z *zone) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		for {
			var length [2]byte
			if _, err := io.ReadFull(server, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(server, query); err != nil {
				return
			}
			response := z.answer(query)
			if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...)); err != nil {
				return
			}
		}
	}()
	return client, nil
}

// in makes f resolve names in the zone and check addresses with allow.
func (z *zone) in(f *Fetcher, allow func(netip.AddrPort) bool) {
	dialer := net.Dialer{
		Resolver: &net.Resolver{PreferGo: true, Dial: z.dial},
		Control:  dialControl(allow),
	}
	f.transport.DialContext = dialer.DialContext
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// TestInnerHosts checks that internal addresses are refused, whether they are
// written in the URL or come from DNS, with the message for an unknown name.
func TestInnerHosts(t *testing.T) {
	z := &zone{names: map[string][]netip.Addr{
		"inner.example.com":    addrs("10.1.2.3"),
		"self.example.com":     addrs("127.0.0.1"),
		"mapped.example.com":   addrs("::ffff:127.0.0.1"),
		"six.example.com":      addrs("::1"),
		"metadata.example.com": addrs("169.254.169.254"),
	}}
	f := New(Options{})
	t.Cleanup(f.Close)
	z.in(f, public)
	message := ""
	for _, host := range []string{
		"unknown.example.com", "inner.example.com", "self.example.com", "mapped.example.com", "six.example.com", "metadata.example.com",
		"127.0.0.1", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1]", "0.0.0.0", "[::]", "169.254.169.254",
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost",
	} {
		address := "https://" + host + "/i.png"
		refused(t, f, address, errAddress)
		_, err := f.Fetch(testContext(t), []string{address}, unbounded)
		if general := strings.Replace(err.Error(), address, "X", 1); message == "" {
			message = general
		} else if general != message {
			t.Errorf("%s can be told from others by %q", host, err)
		}
	}
}

// TestNothingIsDialled checks that a refused address gets no connection.
func TestNothingIsDialled(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	server.StartTLS()
	t.Cleanup(server.Close)
	f := New(Options{Allow: func(to netip.AddrPort) bool { return public(netip.AddrPortFrom(to.Addr(), 443)) }})
	t.Cleanup(f.Close)
	refused(t, f, server.URL, errAddress)
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestRebinding checks that a name is refused when it resolves to an internal
// address after it had a public one.
func TestRebinding(t *testing.T) {
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, png)
	})
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	z := &zone{names: map[string][]netip.Addr{"example.com": addrs("127.0.0.1", "10.0.0.1")}}
	z.in(f, func(to netip.AddrPort) bool { return to.Addr() == netip.MustParseAddr("127.0.0.1") })
	address := "https://example.com:" + port + "/"
	if _, err := f.Fetch(testContext(t), []string{address}, unbounded); err != nil {
		t.Fatal(err)
	}
	f.client.CloseIdleConnections()
	refused(t, f, address, errAddress)
}

// TestCertificate checks that a server with an unknown certificate is refused.
func TestCertificate(t *testing.T) {
	server, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	f := New(Options{Allow: func(netip.AddrPort) bool { return true }})
	t.Cleanup(f.Close)
	refused(t, f, server.URL, errCertificate)
}

// TestUnreachable checks that the message shows neither the address nor the
// system's error.
func TestUnreachable(t *testing.T) {
	server, f := serve(t, http.NotFound)
	server.Close()
	refused(t, f, server.URL, errUnreachable)
}

// TestNoProxy checks that no proxy is used: it would dial without the check.
func TestNoProxy(t *testing.T) {
	if newTransport(Options{}).Proxy != nil {
		t.Error("the transport uses a proxy")
	}
}
