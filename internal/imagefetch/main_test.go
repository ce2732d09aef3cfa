package imagefetch

import (
	"context"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds every wait of a test; passing tests do not reach it.
const deadline = time.Minute

// png begins like a PNG image, which is all that is checked.
const png = "\x89PNG\r\n\x1a\n and what follows"

// serve starts a server with HTTP/2 and a fetcher that allows its port.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *Fetcher) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, fetcherFor(t, server)
}

// fetcherFor returns a fetcher for the ports of these servers, which may be slow: a busy machine takes
// more than ten seconds for the bytes of the largest image.
func fetcherFor(t *testing.T, servers ...*httptest.Server) *Fetcher {
	t.Helper()
	roots := x509.NewCertPool()
	var ports []uint16
	for _, server := range servers {
		roots.AddCert(server.Certificate())
		ports = append(ports, portOf(t, server))
	}
	f := New(Options{RootCAs: roots, Allow: func(to netip.AddrPort) bool { return slices.Contains(ports, to.Port()) }})
	f.limits.imageTime, f.limits.totalTime, f.transport.TLSHandshakeTimeout = deadline, deadline, deadline
	t.Cleanup(f.Close)
	return f
}

func portOf(t *testing.T, server *httptest.Server) uint16 {
	t.Helper()
	u, err := url.Parse(server.URL)
	must.OK(t, err)
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	must.OK(t, err)
	return uint16(port)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// unbounded lets images take any memory.
func unbounded(int64) bool { return true }

// refused fetches a URL and expects it to fail with the reason want.
func refused(t *testing.T, f *Fetcher, address string, want reason) {
	t.Helper()
	images, err := f.Fetch(testContext(t), []string{address}, unbounded)
	failure, ok := err.(*Failure)
	if !ok || images != nil {
		t.Fatalf("%s: got %v and the error %v", address, images, err)
	}
	if failure.URL != address || failure.Reason != string(want) {
		t.Errorf("%s: refused since %q, want %q", address, failure.Reason, want)
	}
	if !strings.HasSuffix(err.Error(), " cannot be fetched: "+string(want)+".") {
		t.Errorf("the message is %q", err)
	}
}

// quiet discards what a server logs about clients that do not trust it.
var quiet = log.New(io.Discard, "", 0)
