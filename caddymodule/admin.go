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

// Routes returns the routes of this module.
func (Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/codex/status", Handler: adminRoute(http.MethodGet, serveStatus)},
		{Pattern: "/codex/restart", Handler: adminRoute(http.MethodPost, serveRestart)},
	}
}

// adminRoute returns a handler for one method.
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

// turnsStatus counts the turns of all handlers.
type turnsStatus struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"` // requests in the queue
}

// appServerStatus is the status of one process. Times are in RFC 3339.
type appServerStatus struct {
	ID           string     `json:"id"`                // as in metrics, events and /codex/restart
	Program      string     `json:"program,omitempty"` // without its arguments, which may contain secrets
	Home         string     `json:"home,omitempty"`
	Address      string     `json:"address,omitempty"` // of an app-server that runs elsewhere
	State        string     `json:"state"`
	Since        time.Time  `json:"since"`
	Reason       string     `json:"reason,omitempty"` // why it is not ready
	RetryAt      *time.Time `json:"retry_at,omitempty"`
	Login        string     `json:"login"`                  // "ok", "missing" or "unknown"
	Instructions string     `json:"instructions,omitempty"` // "append": the provider refuses to have its prompt replaced
	PID          int        `json:"pid,omitempty"`
	Version      string     `json:"version,omitempty"`
	Restarts     int        `json:"restarts"`
	Replacements int        `json:"replacements"`
	Threads      int        `json:"threads"`
	Draining     int        `json:"draining"`
	Memory       int64      `json:"memory_bytes,omitempty"`

	Plan          planStatus          `json:"plan"`
	Conversations conversationsStatus `json:"conversations"`
}

// planStatus is what the model's provider says to the login.
type planStatus struct {
	State    gateway.LoginState `json:"state"`               // "unknown", "fine", "spent" or "refused"
	ResetsAt *time.Time         `json:"resets_at,omitempty"` // of a spent plan
}

func planOf(login *gateway.Login) planStatus {
	state, resets := login.State()
	status := planStatus{State: state}
	if !resets.IsZero() {
		status.ResetsAt = &resets
	}
	return status
}

// conversationsStatus counts the threads that are kept, and what became of requests for
// which one was.
type conversationsStatus struct {
	Kept      int            `json:"kept"`      // parked ones included
	Parked    int            `json:"parked"`    // with turns that wait for results
	Continued int            `json:"continued"` // requests that continued in a kept thread
	Resumed   int            `json:"resumed"`   // requests that resumed a parked turn
	Fallbacks map[string]int `json:"fallbacks"` // requests that got a fresh thread after all, by reason
}

func serveStatus(w http.ResponseWriter, _ *http.Request) error {
	body := adminStatus{Version: version(), AppServers: []appServerStatus{}}
	for _, m := range monitors() {
		body.AppServers = append(body.AppServers, statusOf(m))
	}
	body.Turns.Running, body.Turns.Waiting = gateways.turns()
	return writeAdmin(w, body)
}

func statusOf(m *monitor) appServerStatus {
	s := m.process.Status()
	status := appServerStatus{
		ID:           m.id,
		Home:         m.config.Home,
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

		Plan:          planOf(m.process.login),
		Conversations: conversationsStatus(m.process.conversations.Stats()),
	}
	if len(m.config.Command) > 0 && !s.Remote {
		status.Program = filepath.Base(m.config.Command[0])
	}
	if s.Strict {
		status.Instructions = string(gateway.InstructionsAppend)
	}
	if !s.RetryAt.IsZero() {
		status.RetryAt = &s.RetryAt
	}
	return status
}

// login returns whether Codex is logged in. A process that needs a login is ready only
// with one.
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

// serveRestart replaces all app-servers, or the one with the id app_server of the query.
// Running turns continue.
func serveRestart(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	wanted := query.Get("app_server")
	if len(query) > 0 && wanted == "" { // a misspelt query must not restart all
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("the query may name one app_server by its id, and nothing else")}
	}
	body := restarted{Restarted: []string{}}
	var failed error
	for _, m := range monitors() {
		if wanted != "" && m.id != wanted {
			continue
		}
		if err := m.process.Restart(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("app-server %s: %w", m.id, err))
			continue
		}
		body.Restarted = append(body.Restarted, m.id)
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
