package imagefetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// guardian refuses IANA's special-purpose addresses, IPv6 outside global unicast, and ports other than 443.
var guardian = ssrf.New(
	ssrf.WithPorts(443),
	// Azure serves its virtual machines at this address, which the registries of IANA lack.
	ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")),
)

// public reports whether target is port 443 of a public unicast address. An address of NAT64, with which
// networks without IPv4 reach IPv4 servers (RFC 6052), counts as the IPv4 address in its last four bytes.
func public(target netip.AddrPort) bool {
	addr := target.Addr()
	if ssrf.IPv6NAT64Prefix.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return guardian.SafeAddrPort(netip.AddrPortFrom(addr, target.Port())) == nil
}

// connectTimeout bounds the time to open a TCP connection, and also the time of the TLS handshake.
const connectTimeout = 5 * time.Second

// newTransport returns a transport that uses no proxy and dials only allowed addresses.
func newTransport(opts Options) *http.Transport {
	allow := opts.Allow
	if allow == nil {
		allow = public
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Control: dialControl(allow)}
	return &http.Transport{
		Proxy:                  nil, // a proxy would connect to the server without the check
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true, // otherwise a custom DialContext would disable HTTP/2
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           16,
		IdleConnTimeout:        30 * time.Second,
	}
}

// dialControl returns a Control function for a [net.Dialer]. Before each connection, Go calls the function
// with the resolved address. So a name that later resolves to another address is checked again.
func dialControl(allow func(netip.AddrPort) bool) func(network, address string, conn syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allow(to) {
			return errAddress
		}
		return nil
	}
}

const (
	maxURL          = 8 << 10 // bytes; even signed URLs are shorter
	maxURLInMessage = 200     // bytes of a URL in a message
	maxRedirects    = 5
)

// checkURL parses a URL and checks its form; [dialControl] checks the address.
func (f *Fetcher) checkURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, errLongURL
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errURL
	case u.Scheme != "https":
		return nil, errScheme
	case u.User != nil:
		return nil, errUser
	case u.Opaque != "" || u.Hostname() == "", strings.Contains(u.Hostname(), "%"): // a % begins an IPv6 zone, which only this machine knows
		return nil, errURL
	case u.Port() != "" && u.Port() != "443" && !f.anyPort:
		return nil, errPort
	}
	return u, nil
}

func (f *Fetcher) checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	// The Referer would show the query of the previous URL to the next host.
	next.Header.Del("Referer")
	_, err := f.checkURL(next.URL.String())
	return err
}

func redactURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		return "URL"
	case u.Opaque != "" || u.Host == "":
		return "URL (" + truncate(u.Scheme+":") + "…)"
	}
	return truncate(u.Scheme + "://" + u.Host + u.EscapedPath())
}

func truncate(text string) string {
	return wirejson.Truncate(strings.ToValidUTF8(text, ""), maxURLInMessage)
}
