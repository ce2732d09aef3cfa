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

// deadline bounds everything that a test waits for. It is generous: the
// machine may be busy, and a test that passes never reaches it.
const deadline = 60 * time.Second

// site is a Caddy that serves the API from a codex with the scripted model.
type site struct {
	t        testing.TB
	url      string // http://127.0.0.1:PORT
	addr     string
	home     string // CODEX_HOME
	provider string // the model's URL, as Codex knows it
	model    *scriptedmodel.Server
}

// newSite starts a model and a Caddy with the given options in its codex
// block. The test's end stops both.
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

// appServer is the app_server block for the real codex.
func (s *site) appServer() string {
	return fmt.Sprintf("app_server %s app-server {\nhome %s\n}", codexBinary, s.home)
}

// caddyfile is a whole Caddyfile around the options of a codex block. Options
// with a block of app_server of their own replace the usual one. Options that begin
// with the line conversations have it in the usual one.
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

// wrap is a whole Caddyfile around the site's directives.
func (s *site) wrap(directives string) string {
	return "{\nadmin off\npersist_config off\nauto_https off\n}\n" + s.url + " {\n" + directives + "\n}\n"
}

// load gives Caddy a configuration: the first one, or a reload.
func (s *site) load(caddyfile string) {
	s.t.Helper()
	if err := loadCaddyfile(caddyfile); err != nil {
		s.t.Fatalf("loading:\n%s\n%v", caddyfile, err)
	}
	// The old server closes its connections, and a little later those that wait in
	// its listener; a request on one would fail.
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

// waitReady waits until the app-server takes turns.
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

// waitOpen waits until the model has so many streams open.
func (s *site) waitOpen(n int) {
	s.t.Helper()
	if _, err := s.model.Wait(testContext(s.t), func(now scriptedmodel.Stats) bool { return now.Open == n }); err != nil {
		s.t.Fatal(err)
	}
}

// client is the official SDK, without its retries, which would hide errors.
func (s *site) client(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.url + "/v1"),
		option.WithAPIKey("sk-unused"),
		option.WithMaxRetries(0),
	}, options...)...)
}

// freeAddr finds a port that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// testContext ends with the test's deadline.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}
