package imagefetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// guardian refuses every address in IANA's registries of special-purpose
// addresses, all of IPv6 outside global unicast, and every port but 443.
var guardian = ssrf.New(
	ssrf.WithPorts(443),
	// Azure serves its virtual machines at this address; the registries lack it.
	ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")),
)

// public reports whether to is port 443 of a public unicast address. A NAT64
// address is public if the IPv4 address in its last four bytes is: it is how a
// network without IPv4 reaches IPv4 servers (RFC 6052).
func public(to netip.AddrPort) bool {
	addr := to.Addr()
	if ssrf.IPv6NAT64Prefix.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return guardian.SafeAddrPort(netip.AddrPortFrom(addr, to.Port())) == nil
}

const (
	connectTimeout = 5 * time.Second // for TCP, and again for TLS
	idleTimeout    = 30 * time.Second
	maxIdle        = 16
	maxHeader      = 64 << 10 // bytes of a response's header
)

// newTransport returns a transport that uses no proxy and no compression, and
// dials the allowed addresses only.
func newTransport(opts Options) *http.Transport {
	allow := opts.Allow
	if allow == nil {
		allow = public
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Control: control(allow)}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, without the check
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true, // a custom dialer disables HTTP/2 otherwise
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTimeout,
	}
}

// control returns a [net.Dialer] Control function that refuses the addresses
// that allow does not accept. Go calls it with the resolved address before each
// connection, so a name that resolves differently the second time is checked
// again.
func control(allow func(netip.AddrPort) bool) func(network, address string, conn syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allow(to) {
			return errAddress
		}
		return nil
	}
}
