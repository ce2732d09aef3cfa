package imagefetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

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
