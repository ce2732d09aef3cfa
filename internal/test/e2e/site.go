package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Deadline bounds every wait of a test. Passing tests do not reach it, even on a busy machine.
const Deadline = 60 * time.Second

// Site is a Caddy that serves the API from a codex with the scripted model.
type Site struct {
	T        testing.TB
	URL      string // http://127.0.0.1:PORT
	Addr     string // 127.0.0.1:PORT
	Home     string // CODEX_HOME
	Provider string // URL of the model for a Codex without a login
	Model    *scriptedmodel.Server
	// Plan is the back end of Codex's plan, Login its login in the home; nil without a login.
	Plan  *planbackend.Backend
	Login *planbackend.Login
}

// NewSite starts a model and a Caddy with these codex options, until the end of the test.
func NewSite(t testing.TB, options string) *Site {
	t.Helper()
	return NewSiteWith(t, codexhome.Options{}, options)
}

// NewSiteWith is [NewSite] with options of the CODEX_HOME.
func NewSiteWith(t testing.TB, home codexhome.Options, options string) *Site {
	t.Helper()
	s := unstarted(t, home)
	s.Serve(options)
	s.WaitReady()
	return s
}

// Serve starts a Caddy with these options for the test. It does not wait for the app-servers.
func (s *Site) Serve(options string) {
	s.T.Helper()
	s.Load(s.Caddyfile(options))
	s.T.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			s.T.Error("stopping Caddy:", err)
		}
	})
}

// unstarted returns a site with a model and a CODEX_HOME.
func unstarted(t testing.TB, opts codexhome.Options) *Site {
	t.Helper()
	s := &Site{T: t, Model: scriptedmodel.New(scriptedmodel.Options{})}
	home := NewHome(t, s.Model, opts)
	t.Cleanup(s.Model.Close)
	s.Home, s.Provider, s.Plan, s.Login = home.Dir, home.Provider, home.Plan, home.Login
	return s.Node()
}

// Node returns a site with the same model and home, and an address of its own.
func (s *Site) Node() *Site {
	node := *s
	node.Addr = FreeAddr(s.T)
	node.URL = "http://" + node.Addr
	return &node
}

// At returns the site for a subtest.
func (s *Site) At(t testing.TB) *Site {
	sub := *s
	sub.T = t
	return &sub
}

// AppServer returns the app_server block for the real codex.
func (s *Site) AppServer() string {
	return fmt.Sprintf("app_server %s app-server {\nhome %s\n}", CodexBinary, s.Home)
}

// Caddyfile returns a Caddyfile with these options in the codex block. An app_server block replaces
// the usual one; a conversations line at their beginning goes into the usual one.
func (s *Site) Caddyfile(options string) string {
	if !strings.Contains(options, "app_server") {
		server := s.AppServer()
		if rest, found := strings.CutPrefix(options, "conversations "); found {
			how, more, _ := strings.Cut(rest, "\n")
			server, options = strings.TrimSuffix(server, "}")+"conversations "+how+"\n}", more
		}
		options = server + "\n" + options
	}
	return s.Wrap("codex {\n" + options + "\n}")
}

// Wrap returns a Caddyfile with these directives in the site.
func (s *Site) Wrap(directives string) string {
	return "{\nadmin off\npersist_config off\nauto_https off\n}\n" + s.URL + " {\n" + directives + "\n}\n"
}

// Load loads a configuration, and waits until it answers.
func (s *Site) Load(caddyfile string) {
	s.T.Helper()
	if err := LoadCaddyfile(caddyfile); err != nil {
		s.T.Fatalf("loading:\n%s\n%v", caddyfile, err)
	}
	// The old server closes its connections, and a request on one would fail.
	http.DefaultClient.CloseIdleConnections()
	fresh := &http.Client{Timeout: Deadline, Transport: &http.Transport{DisableKeepAlives: true}}
	inARow := 0
	WaitFor(s.T, "the new configuration", func() bool {
		inARow++
		response, err := fresh.Get(s.URL + "/healthz")
		if err != nil || response.Body.Close() != nil {
			inARow = 0
		}
		return inARow == 5
	})
}

// LoadCaddyfile loads a configuration. A warning is an error, other than of the format.
func LoadCaddyfile(text string) error {
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

// WaitReady waits until the app-server is ready.
func (s *Site) WaitReady() {
	s.T.Helper()
	last := ""
	defer func() {
		if s.T.Failed() {
			s.T.Log("/readyz last said: ", last)
		}
	}()
	WaitFor(s.T, "the site to be ready", func() (ready bool) {
		var status int
		status, last = s.Get("/readyz")
		return status == http.StatusOK
	})
}

// WaitSuccessor waits until the site is ready and only this number of app-servers is left. Those of
// the configuration before serve until the new ones know their account.
func (s *Site) WaitSuccessor(n int) {
	s.T.Helper()
	s.WaitReady()
	WaitFor(s.T, "the successors alone", func() bool { return len(AppServers()) == n })
}

// Patient lets answers wait for blocks of tools, also if a busy machine takes long between two.
const Patient = "stop_after_tools burst 30s"

// IsLate reports whether a stream has lasted so long that an error could not be its status: its
// header waits for two seconds, but on a busy machine an error can take longer.
func IsLate(response *http.Response, begin time.Time) bool {
	return response.StatusCode == http.StatusOK && time.Since(begin) > 2*time.Second &&
		strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
}

// WaitReadyAs is WaitReady for a site where probes need a login.
func (s *Site) WaitReadyAs(header http.Header) {
	s.T.Helper()
	WaitFor(s.T, "the app-server", func() bool {
		response := s.Do(http.MethodGet, "/readyz", nil, header)
		s.Read(response)
		return response.StatusCode == http.StatusOK
	})
}

// WaitOpen waits until the model has n open streams.
func (s *Site) WaitOpen(n int) {
	s.T.Helper()
	if _, err := s.Model.Wait(Context(s.T), func(now scriptedmodel.Stats) bool { return now.Open == n }); err != nil {
		s.T.Fatal(err)
	}
}

// Client returns a client of the official SDK without retries, which would hide errors.
func (s *Site) Client(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.URL + "/v1"),
		option.WithAPIKey("sk-unused"),
		option.WithMaxRetries(0),
	}, options...)...)
}
