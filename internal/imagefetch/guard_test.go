package imagefetch

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"
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

// dial connects a resolver to the zone. Each message has a length before it, as over TCP.
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

// TestUnreachable checks that the message shows neither the address nor the system's error.
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

// TestRedirects checks that five redirects are followed, and that the rules for URLs apply to each.
func TestRedirects(t *testing.T) {
	inner, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the inner server was asked") })
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("a redirect carries on %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes", Path: "/"})
		to := r.URL.Query().Get("to")
		if left, err := strconv.Atoi(to); err == nil {
			if left == 0 {
				_, _ = io.WriteString(w, png)
				return
			}
			to = fmt.Sprint("/?to=", left-1)
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	if _, err := f.Fetch(testContext(t), []string{server.URL + "/?to=5"}, unbounded); err != nil {
		t.Error(err)
	}
	refused(t, f, server.URL+"/?to=6", errRedirects)
	refused(t, f, server.URL+"/?to=1000000", errRedirects)
	for to, want := range map[string]reason{
		inner.URL: errAddress,
		strings.Replace(server.URL, "https", "http", 1):      errScheme,
		"http://example.com/a.png":                           errScheme,
		"file:///etc/passwd":                                 errScheme,
		"data:image/png;base64,AAAA":                         errScheme,
		"https://user:password@127.0.0.1/":                   errUser,
		"https:///nowhere":                                   errURL,
		"https://example.com/" + strings.Repeat("x", maxURL): errLongURL,
	} {
		refused(t, f, server.URL+"/?to="+url.QueryEscape(to), want)
	}
}

// TestRedirectWithoutTarget checks that a redirect without a Location is an
// error like any other status.
func TestRedirectWithoutTarget(t *testing.T) {
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })
	refused(t, f, server.URL, "its server answered 302 (Found)")
}

func TestPublic(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255",
		"192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"198.51.99.255", "203.0.114.0", "223.255.255.255",
		"2001:200::", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2a00:1450:4001::1", "3ffe::1",
		"64:ff9b::8.8.8.8",
	} {
		if !public(netip.AddrPortFrom(netip.MustParseAddr(text), 443)) {
			t.Errorf("%s is refused", text)
		}
		for _, port := range []uint16{0, 80, 8443} {
			if public(netip.AddrPortFrom(netip.MustParseAddr(text), port)) {
				t.Errorf("port %d of %s is allowed", port, text)
			}
		}
	}
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "100.100.100.200", "127.0.0.1", "127.255.255.255",
		"168.63.129.16", "169.254.0.0", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255",
		"::", "::1", "::8.8.8.8", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::10.1.2.3",
		"64:ff9b::169.254.169.254", "64:ff9b::168.63.129.16", "64:ff9b::8.8.8.8%eth0", "64:ff9b:1::1", "100::1", "100:0:0:1::1",
		"2001::1", "2001:2::1", "2001:3::1", "2001:10::1", "2001:20::1", "2001:30::1",
		"2001:1ff:ffff::1", "2001:db8::1", "2002:808:808::1", "2002:7f00:1::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
		"fe80::1%eth0", "2606:4700:4700::1111%eth0", "febf::1", "fec0::1", "ff02::1", "ff0e::1",
	} {
		if public(netip.AddrPortFrom(netip.MustParseAddr(text), 443)) {
			t.Errorf("%s is allowed", text)
		}
	}
	if public(netip.AddrPort{}) {
		t.Error("the zero address is allowed")
	}
}

func TestCheckURL(t *testing.T) {
	f := New(Options{})
	for text, want := range map[string]reason{
		"https://example.com/a.png":                    "",
		"HTTPS://EXAMPLE.com:443/a?b=c#d":              "",
		"https://example.com:":                         "",
		"https://[2606:4700::1111]/":                   "",
		"https://bücher.example/ä.png":                 "",
		"http://example.com/a.png":                     errScheme,
		"//example.com/a.png":                          errScheme,
		"example.com/a.png":                            errScheme,
		"":                                             errScheme,
		"file:///etc/passwd":                           errScheme,
		"javascript:alert(1)":                          errScheme,
		"https:example.com":                            errURL,
		"https://":                                     errURL,
		"https://:443/":                                errURL,
		"https:///a.png":                               errURL,
		"https://exa mple.com/":                        errURL,
		"https://example.com/\n":                       errURL,
		"https://example.com:port/":                    errURL,
		"https://[::1/":                                errURL,
		"https://[fe80::1%25lo]/":                      errURL,
		"https://user@example.com/":                    errUser,
		"https://user:secret@example.com/":             errUser,
		"https://@example.com/":                        errUser,
		"https://example.com:80/":                      errPort,
		"https://example.com:0443/":                    errPort,
		"https://example.com:8443/":                    errPort,
		"https://e.com/" + strings.Repeat("x", maxURL): errLongURL,
	} {
		_, err := f.checkURL(text)
		if got, _ := err.(reason); got != want {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"https://u:secret@example.com/a b/ä?key=secret#secret": "https://example.com/a%20b/%C3%A4",
		"data:image/png;base64,AAAA":                           "URL (data:…)",
		"a.png":                                                "URL",
		"https://secret:":                                      "https://secret:",
		"https://secret\n":                                     "URL",
		"https://e.com/" + strings.Repeat("x", 500):            "https://e.com/" + strings.Repeat("x", 186) + "…",
	} {
		if got := redactURL(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

// FuzzCheckURL sends any URL. What is accepted must be one that HTTP takes, and
// obey the rules; what is shown must hold no secret and be short.
func FuzzCheckURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/a.png?x=y#z", "https://user:password@example.com:443/", "https://[fe80::1%25eth0]:443/", "https:opaque?x",
		"data:image/png;base64,AAAA", "https://example.com:/%2e%2e/", "//example.com", "https://ex%41mple.com/%zz",
	} {
		f.Add(text)
	}
	fetcher := New(Options{})
	f.Fuzz(func(t *testing.T, text string) {
		got := redactURL(text)
		if len(got) > maxURLInMessage+len("URL (…)")+len("…") || strings.ContainsAny(got, "?#\n") || !utf8.ValidString(got) {
			t.Errorf("shown as %q", got)
		}
		if _, host, ok := strings.Cut(got, "://"); ok && strings.Contains(strings.SplitN(host, "/", 2)[0], "@") {
			t.Errorf("shown as %q", got)
		}
		u, err := fetcher.checkURL(text)
		if err != nil {
			if _, ok := err.(reason); !ok {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if u.Scheme != "https" || u.User != nil || u.Hostname() == "" || u.Port() != "" && u.Port() != "443" {
			t.Errorf("accepted: %q", u)
		}
		// A host that only IDNA refuses is found out when it is asked.
		if _, err := http.NewRequest(http.MethodGet, u.String(), nil); err != nil {
			t.Errorf("accepted: %q: %v", u, err)
		}
	})
}
