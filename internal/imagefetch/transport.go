package imagefetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	connectTimeout = 5 * time.Second // for TCP, and again for TLS
	idleTimeout    = 30 * time.Second
	maxIdle        = 16
	maxHeader      = 64 << 10 // bytes of a response's header
)

// newTransport makes a transport that knows no proxy, no compression and no
// address but those allowed.
func newTransport(opts Options) *http.Transport {
	allow := opts.Allow
	if allow == nil {
		allow = Public
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Control: control(allow)}
	return &http.Transport{
		// Not from the environment: the proxy would do the dialling, unchecked.
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true, // which a dialer of one's own switches off
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTimeout,
	}
}

// control lets a socket connect only where it may. It runs between the
// resolution of a name and the connection, with the address itself, so that a
// name which resolves to something else the second time gains nothing.
func control(allow func(netip.AddrPort) bool) func(string, string, syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allow(to) {
			return errAddress
		}
		return nil
	}
}
