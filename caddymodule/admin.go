package caddymodule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin adds GET /codex/status and POST /codex/restart to Caddy's admin API.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.codex",
		New: func() caddy.Module { return new(Admin) },
	}
}

// Routes are those of this module.
func (Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/codex/status", Handler: adminRoute(http.MethodGet, serveStatus)},
		{Pattern: "/codex/restart", Handler: adminRoute(http.MethodPost, serveRestart)},
	}
}

// adminRoute answers to one method.
func adminRoute(method string, serve caddy.AdminHandlerFunc) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method not allowed; use %s", method)}
		}
		return serve(w, r)
	})
}

// adminStatus is the body of GET /codex/status.
type adminStatus struct {
	Version    string            `json:"version"` // of this module
	AppServers []appServerStatus `json:"app_servers"`
	Turns      turnsStatus       `json:"turns"`
}

type turnsStatus struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"` // in the queue
}

// appServerStatus is one process. Times are in RFC 3339.
type appServerStatus struct {
	ID           string     `json:"id"`                // as metrics, events and /codex/restart call it
	Program      string     `json:"program,omitempty"` // without its arguments, which may be secret
	Home         string     `json:"home,omitempty"`
	Address      string     `json:"address,omitempty"` // of one that runs elsewhere
	State        string     `json:"state"`
	Since        time.Time  `json:"since"`
	Reason       string     `json:"reason,omitempty"` // why it is not ready
	RetryAt      *time.Time `json:"retry_at,omitempty"`
	Login        string     `json:"login"`                  // "ok", "missing" or "unknown"
	Instructions string     `json:"instructions,omitempty"` // "append": the provider refuses others
	PID          int        `json:"pid,omitempty"`
	Version      string     `json:"version,omitempty"`
	Restarts     int        `json:"restarts"`
	Replacements int        `json:"replacements"`
	Threads      int        `json:"threads"`
	Draining     int        `json:"draining"`
	Memory       int64      `json:"memory_bytes,omitempty"`
}

func serveStatus(w http.ResponseWriter, _ *http.Request) error {
	body := adminStatus{Version: version(), AppServers: []appServerStatus{}}
	for _, watch := range watches() {
		body.AppServers = append(body.AppServers, statusOf(watch))
	}
	body.Turns.Running, body.Turns.Waiting = queues.sum()
	return writeAdmin(w, body)
}

func statusOf(w *watch) appServerStatus {
	s := w.process.Status()
	status := appServerStatus{
		ID:           w.id,
		Home:         w.config.Home,
		Address:      s.Address,
		State:        s.State.String(),
		Since:        s.Since,
		Reason:       s.Reason,
		Login:        login(s),
		PID:          s.PID,
		Version:      s.Version,
		Restarts:     s.Restarts,
		Replacements: s.Replacements,
		Threads:      s.Threads,
		Draining:     s.Draining,
		Memory:       s.Memory,
	}
	if len(w.config.Command) > 0 && !s.Remote {
		status.Program = filepath.Base(w.config.Command[0])
	}
	if s.Strict {
		status.Instructions = string(gateway.InstructionsAppend)
	}
	if !s.RetryAt.IsZero() {
		status.RetryAt = &s.RetryAt
	}
	return status
}

// login says whether Codex has one. A process is ready only with a login, if
// it needs one.
func login(s appserver.Status) string {
	switch {
	case s.State == appserver.StateReady, s.State == appserver.StateUnresponsive:
		return "ok"
	case strings.Contains(s.Reason, codexrpc.ErrNotLoggedIn.Error()):
		return "missing"
	}
	return "unknown"
}

// restarted is the body of POST /codex/restart.
type restarted struct {
	Restarted []string `json:"restarted"` // ids
}

// serveRestart replaces the app-servers, or the one that the query names as
// app_server. Turns that run go on.
func serveRestart(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	wanted := query.Get("app_server")
	if len(query) > 0 && wanted == "" { // it is not meant for all
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("the query may name one app_server by its id, and nothing else")}
	}
	body := restarted{Restarted: []string{}}
	var failed error
	for _, watch := range watches() {
		if wanted != "" && watch.id != wanted {
			continue
		}
		if err := watch.process.Restart(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("app-server %s: %w", watch.id, err))
			continue
		}
		body.Restarted = append(body.Restarted, watch.id)
	}
	switch {
	case failed != nil:
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: failed}
	case len(body.Restarted) == 0:
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("there is no app-server %s", cmp.Or(wanted, "at all"))}
	}
	return writeAdmin(w, body)
}

func writeAdmin(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

// Interface guard
var _ caddy.AdminRouter = (*Admin)(nil)
