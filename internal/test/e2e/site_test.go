package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// deadline bounds every wait of a test. Passing tests do not reach it, even on a busy
// machine.
const deadline = 60 * time.Second

// site is a Caddy that serves the API from a codex with the scripted model.
type site struct {
	t        testing.TB
	url      string // http://127.0.0.1:PORT
	addr     string
	home     string // CODEX_HOME
	provider string // URL of the model for Codex
	model    *scriptedmodel.Server
}

// newSite starts a model and a Caddy with these options in its codex block, until the
// end of the test.
func newSite(t testing.TB, options string) *site {
	t.Helper()
	return newSiteWith(t, codexhome.Options{}, options)
}

func newSiteWith(t testing.TB, home codexhome.Options, options string) *site {
	t.Helper()
	s := &site{t: t, home: t.TempDir(), model: scriptedmodel.New(scriptedmodel.Options{})}
	server := httptest.NewServer(s.model)
	t.Cleanup(server.Close)
	t.Cleanup(s.model.Close)
	writeHome(t, s.home, server.URL+"/v1", home)
	s.provider = server.URL + "/v1"
	s.addr = freeAddr(t)
	s.url = "http://" + s.addr
	s.load(s.caddyfile(options))
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error("stopping Caddy:", err)
		}
	})
	s.waitReady()
	return s
}

// appServer returns the app_server block for the real codex.
func (s *site) appServer() string {
	return fmt.Sprintf("app_server %s app-server {\nhome %s\n}", codexBinary, s.home)
}

// caddyfile returns a Caddyfile with these options in the codex block. An app_server
// block in the options replaces the usual one. A line conversations at the beginning of
// the options goes into the usual one.
func (s *site) caddyfile(options string) string {
	if !strings.Contains(options, "app_server") {
		server := s.appServer()
		if rest, found := strings.CutPrefix(options, "conversations "); found {
			how, more, _ := strings.Cut(rest, "\n")
			server, options = strings.TrimSuffix(server, "}")+"conversations "+how+"\n}", more
		}
		options = server + "\n" + options
	}
	return s.wrap("codex {\n" + options + "\n}")
}

// wrap returns a Caddyfile with these directives in the site.
func (s *site) wrap(directives string) string {
	return "{\nadmin off\npersist_config off\nauto_https off\n}\n" + s.url + " {\n" + directives + "\n}\n"
}

// load loads a configuration.
func (s *site) load(caddyfile string) {
	s.t.Helper()
	if err := loadCaddyfile(caddyfile); err != nil {
		s.t.Fatalf("loading:\n%s\n%v", caddyfile, err)
	}
	// The old server closes its connections, and a request on one would fail.
	http.DefaultClient.CloseIdleConnections()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	inARow := 0
	waitFor(s.t, "the new configuration", func() bool {
		inARow++
		response, err := fresh.Get(s.url + "/healthz")
		if err != nil || response.Body.Close() != nil {
			inARow = 0
		}
		return inARow == 5
	})
}

func loadCaddyfile(text string) error {
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			return fmt.Errorf("the adapter warns: %v", w)
		}
	}
	return caddy.Load(config, true)
}

// waitReady waits until the app-server is ready.
func (s *site) waitReady() {
	s.t.Helper()
	last := ""
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		status, body := s.get("/readyz")
		if last = body; status == http.StatusOK {
			return
		}
	}
	s.t.Fatal("the site did not become ready:", last)
}

// waitOpen waits until the model has n open streams.
func (s *site) waitOpen(n int) {
	s.t.Helper()
	if _, err := s.model.Wait(testContext(s.t), func(now scriptedmodel.Stats) bool { return now.Open == n }); err != nil {
		s.t.Fatal(err)
	}
}

// client returns a client of the official SDK without retries, which would hide errors.
func (s *site) client(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.url + "/v1"),
		option.WithAPIKey("sk-unused"),
		option.WithMaxRetries(0),
	}, options...)...)
}

// freeAddr returns an address with a free port.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// testContext returns a context with the deadline of tests.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}
