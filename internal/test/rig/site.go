package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Model is a scripted model, and a CODEX_HOME that uses it.
type Model struct {
	*scriptedmodel.Local
	Home string
	// Plan is the plan's back end before the model, Login its login in the home; nil without one.
	Plan  *planbackend.Backend
	Login *planbackend.Login

	mu    sync.Mutex
	asked time.Time
}

// NewModel starts a model that Codex asks over WebSockets or HTTP, without a login. Close it.
func NewModel(webSockets bool) (*Model, error) {
	return newModel(func(m *Model) error {
		return codexhome.Write(m.Home, m.URL, codexhome.Options{WebSockets: webSockets})
	})
}

// NewPlan starts a model behind the back end of a plan, with a login for it, that Codex asks over
// WebSockets or HTTP. codex is the program whose models it lists. The caller closes it.
func NewPlan(codex string, webSockets bool) (*Model, error) {
	return newModel(func(m *Model) (err error) {
		if m.Plan, err = planbackend.Listen(planbackend.Options{Codex: codex, Model: m.Server, HTTP: !webSockets}); err != nil {
			return err
		}
		m.Login = m.Plan.AddLogin(planbackend.LoginOptions{})
		return m.Login.Write(m.Home)
	})
}

// NewModelFor is [NewPlan] over WebSockets with a login, and [NewModel] over HTTP without one.
func NewModelFor(codex string, login bool) (*Model, error) {
	if login {
		return NewPlan(codex, true)
	}
	return NewModel(false)
}

func newModel(write func(*Model) error) (*Model, error) {
	home, err := os.MkdirTemp("", "caddy-codex-rig-")
	if err != nil {
		return nil, err
	}
	m := &Model{Home: home}
	if m.Local, err = scriptedmodel.Listen(scriptedmodel.Options{}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	if err := write(m); err != nil {
		m.Close()
		return nil, err
	}
	m.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = time.Now()
		return scriptedmodel.Script{}, false // the prompt has the script
	})
	return m, nil
}

// Asked returns when the model was last asked for an answer.
func (m *Model) Asked() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// Close stops the model and removes the home.
func (m *Model) Close() {
	m.Local.Close()
	if m.Plan != nil {
		m.Plan.Close()
	}
	_ = os.RemoveAll(m.Home)
}

// Site is a Caddy with this module and an app-server.
type Site struct {
	*Caddy
	URL, Admin string // of the API and of the admin API
}

// SiteOptions configure a [Site].
type SiteOptions struct {
	Command, Home string    // of the app-server
	Global        string    // further global options of the Caddyfile
	AppServer     string    // further lines of the option app_server
	Handler       string    // further lines of the directive codex
	Site          string    // further directives of the site
	Env           []string  // further variables for Caddy
	Log           io.Writer // for what Caddy and the app-server log; may be nil
}

// StartSite starts a Caddy program and waits until it is ready. The caller stops it.
func StartSite(ctx context.Context, program string, opts SiteOptions) (*Site, error) {
	addr, err := ports.Free()
	if err != nil {
		return nil, err
	}
	admin, err := ports.Free()
	if err != nil {
		return nil, err
	}
	s := &Site{URL: "http://" + addr, Admin: "http://" + admin}
	if s.Caddy, err = Start(program, s.caddyfile(opts), opts.Log, opts.Env...); err != nil {
		return nil, err
	}
	if err := WaitReady(ctx, s.URL); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Site) caddyfile(opts SiteOptions) string {
	return strings.Join([]string{
		"{", "admin " + strings.TrimPrefix(s.Admin, "http://"), "persist_config off", "auto_https off", opts.Global, "}",
		s.URL + " {", "codex {",
		fmt.Sprintf("app_server %q app-server {", opts.Command), fmt.Sprintf("home %q", opts.Home), opts.AppServer, "}",
		opts.Handler, "}", opts.Site, "}", "",
	}, "\n")
}

// AdminClient is for the admin API. A reload restarts that, so connections are not kept.
var AdminClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// Reload loads the configuration with these options, also if they have not changed.
func (s *Site) Reload(ctx context.Context, opts SiteOptions) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Admin+"/load", strings.NewReader(s.caddyfile(opts)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	request.Header.Set("Cache-Control", "must-revalidate")
	response, err := AdminClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

// Stop is [Caddy.Stop] with a limit of ten seconds.
func (s *Site) Stop() error { return s.Caddy.Stop(10 * time.Second) }
