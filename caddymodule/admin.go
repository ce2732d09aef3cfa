package caddymodule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin adds GET /codex/status and /codex/usage, POST /codex/restart, POST and DELETE /codex/login,
// POST /codex/credit, and GET, POST and DELETE /codex/trace to Caddy's admin API.
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
		{Pattern: "GET /codex/status", Handler: caddy.AdminHandlerFunc(serveStatus)},
		{Pattern: "GET /codex/usage", Handler: caddy.AdminHandlerFunc(serveAdminUsage)},
		{Pattern: "POST /codex/restart", Handler: caddy.AdminHandlerFunc(serveRestart)},
		{Pattern: "POST /codex/login", Handler: caddy.AdminHandlerFunc(adminAction(signIn).serveAdminAPI)},
		{Pattern: "DELETE /codex/login", Handler: caddy.AdminHandlerFunc(adminAction(signIn).serveAdminAPI)},
		{Pattern: "GET /codex/trace", Handler: caddy.AdminHandlerFunc(serveRecordings)},
		{Pattern: "POST /codex/trace", Handler: caddy.AdminHandlerFunc(serveRecordings)},
		{Pattern: "DELETE /codex/trace", Handler: caddy.AdminHandlerFunc(serveRecordings)},
		{Pattern: "POST /codex/credit", Handler: caddy.AdminHandlerFunc(adminAction(spendResetCredit).serveAdminAPI)},
	}
}

func serveStatus(w http.ResponseWriter, r *http.Request) error {
	body := statusOf(r, supervisor.All(), usage.Everybody)
	body.Turns.Running, body.Turns.Waiting, _ = queueTotals()
	body.Stores, body.Recording = storemodules.States(), recordStatus()
	return writeAdmin(w, body)
}

// serveAdminUsage answers with the usage of all users, of all nodes if a handler shares it with them.
func serveAdminUsage(w http.ResponseWriter, r *http.Request) error {
	var shared *usage.Shared
	for _, h := range handlersInUse.all() {
		shared = cmp.Or(shared, h.sharedUsage)
	}
	account, apiErr := usageOf(r, shared, usage.Everybody)
	if apiErr != nil {
		return caddy.APIError{HTTPStatus: apiErr.Status, Err: errors.New(apiErr.Message)}
	}
	return writeAdmin(w, account)
}

// statusOf returns the state of processes, and a user's requests. The caller adds the numbers of turns.
func statusOf(r *http.Request, processes []*pool.Process, user string) status.Document {
	return status.Document{Version: version(), AppServers: pool.Statuses(r.Context(), processes), Requests: requestsOf(user)}
}

// liveRequests holds the unfinished requests of all handlers. A reload keeps them.
var liveRequests status.Set

const maxRequests = 50

// requestsOf returns at most maxRequests requests: those of a user, or those of all users for
// [usage.Everybody]. The requests that have not ended come first, from the oldest on. Then come the
// requests whose turns wait for the results of tool calls.
func requestsOf(user string) []status.Request {
	wanted := func(other string) bool { return user == usage.Everybody || user == other }
	found := liveRequests.List(wanted, maxRequests)
	for _, p := range supervisor.All() {
		for _, r := range p.Conversations.Parked() {
			if wanted(r.User) && len(found) < maxRequests {
				found = append(found, r)
			}
		}
	}
	for i := range found {
		found[i].AppServer = appServerID(found[i].Process)
	}
	return found
}

// appServerID returns the id of a process, or "" if the supervisor does not run the process.
func appServerID(process *appserver.Process) string {
	for _, p := range supervisor.All() {
		if p.Process == process {
			return p.ID()
		}
	}
	return ""
}

// serveRestart replaces all app-servers, or the one whose id is in the query. Turns continue.
func serveRestart(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	wanted := query.Get("app_server")
	if len(query) > 0 && wanted == "" { // a misspelt query must not restart all
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("the query may name one app_server by its id, and nothing else")}
	}
	var restarted []string
	var errs error
	for _, p := range supervisor.All() {
		if wanted != "" && p.ID() != wanted {
			continue
		}
		if err := p.Restart(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("app-server %s: %w", p.ID(), err))
			continue
		}
		restarted = append(restarted, p.ID())
	}
	switch {
	case errs != nil:
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errs}
	case len(restarted) == 0:
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("there is no app-server %s", cmp.Or(wanted, "at all"))}
	}
	return writeAdmin(w, map[string][]string{"restarted": restarted})
}

func writeAdmin(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

// modulePath is the path of this module in the build information.
const modulePath = "github.com/caddy-codex/caddy-codex"

// version returns this module's version. Codex sends it to the provider in the User-Agent.
var version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info)
})

// versionIn returns the version of this module in a build. If go.mod replaces the module by another
// version, it returns that version. Otherwise it returns the version in go.mod, which the Makefile sets
// from the git tag.
func versionIn(info *debug.BuildInfo) string {
	const develVersion = "(devel)" // the version that Go gives to a module in a directory
	if info == nil {
		return "unknown"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if r := m.Replace; r != nil && r.Version != "" && r.Version != develVersion {
			return r.Version
		}
		// These three versions mean that no version is known. The go command writes the third one to
		// go.mod if a directory replaces the module.
		if m.Version == "" || m.Version == "v0.0.0" || strings.HasPrefix(m.Version, "v0.0.0-00010101000000-") {
			return develVersion
		}
		return m.Version
	}
	return "unknown"
}

// Interface guard
var _ caddy.AdminRouter = (*Admin)(nil)
