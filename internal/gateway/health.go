package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// Health serves GET /healthz. It is 200 in any state of the app-servers.
func (g *Gateway) Health(w http.ResponseWriter, r *http.Request) {
	g.answer(w, r, []byte(`{"status":"ok"}`), nil)
}

// readiness is the body of /readyz.
type readiness struct {
	Status string `json:"status"` // "ready" or "unavailable"
	member
	// AppServers has all app-servers, if there is more than one.
	AppServers []member `json:"app_servers,omitempty"`
}

// member is what is public of one app-server. The admin API says more.
type member struct {
	AppServer string `json:"app_server"`       // its state
	Reason    string `json:"reason,omitempty"` // why it is not ready, and what to do
}

// Ready serves GET /readyz: 200 when an app-server takes turns, else 503 with what to
// do and, if it may mend itself, when to ask again. It needs no key, so it has no details of this machine.
func (g *Gateway) Ready(w http.ResponseWriter, r *http.Request) {
	lease, err := g.upstream.Lease()
	if err != nil {
		g.ready(w, r, http.StatusServiceUnavailable, readiness{Status: "unavailable", member: member{Reason: err.Error()}})
		return
	}
	defer lease.Release()
	process, done := lease.Pick(nil)
	defer done()
	best := process.Status()
	body := readiness{Status: "ready", member: memberOf(best)}
	if all := lease.Statuses(); len(all) > 1 {
		for _, s := range all {
			body.AppServers = append(body.AppServers, memberOf(s))
		}
	}
	code := http.StatusOK
	if best.State != appserver.StateReady {
		body.Status, code = "unavailable", http.StatusServiceUnavailable
		if !best.Final {
			retry := max(1, math.Ceil(time.Until(best.RetryAt).Seconds()))
			w.Header().Set("Retry-After", strconv.FormatFloat(retry, 'f', 0, 64))
		}
	}
	g.ready(w, r, code, body)
}

func memberOf(s appserver.Status) member {
	return member{AppServer: s.State.String(), Reason: s.Remedy}
}

func (g *Gateway) ready(w http.ResponseWriter, r *http.Request, code int, body readiness) {
	encoded, err := json.Marshal(body)
	if err != nil {
		encoded = []byte(`{"status":"unavailable"}`)
	}
	w.Header().Set("Cache-Control", "no-store")
	g.report(r, requestOutcome{lost: writeJSON(w, code, encoded)})
}
