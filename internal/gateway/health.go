package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Health serves GET /healthz: the server answers, whatever its app-server does.
func (g *Gateway) Health(w http.ResponseWriter, r *http.Request) {
	_ = g.respond(w, r, http.StatusOK, []byte(`{"status":"ok"}`))
}

// readiness is the body of /readyz.
type readiness struct {
	Status    string `json:"status"` // "ready" or "unavailable"
	AppServer string `json:"app_server"`
	Version   string `json:"version,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Ready serves GET /readyz: 200 when the app-server takes turns, else 503 with
// the reason and when to ask again.
func (g *Gateway) Ready(w http.ResponseWriter, r *http.Request) {
	lease, err := g.upstream.Lease()
	if err != nil {
		g.ready(w, r, http.StatusServiceUnavailable, readiness{Status: "unavailable", Reason: err.Error()})
		return
	}
	defer lease.Release()
	process, done := lease.Pick()
	defer done()
	status := process.Status()
	body := readiness{Status: "ready", AppServer: status.State.String(), Version: status.Version, Reason: status.Reason}
	code := http.StatusOK
	if status.State != codexrpc.StateReady {
		body.Status, code = "unavailable", http.StatusServiceUnavailable
		retry := max(1, math.Ceil(time.Until(status.RetryAt).Seconds()))
		w.Header().Set("Retry-After", strconv.FormatFloat(retry, 'f', 0, 64))
	}
	g.ready(w, r, code, body)
}

func (g *Gateway) ready(w http.ResponseWriter, r *http.Request, code int, body readiness) {
	encoded, err := json.Marshal(body)
	if err != nil {
		encoded = []byte(`{"status":"unavailable"}`)
	}
	w.Header().Set("Cache-Control", "no-store")
	_ = g.respond(w, r, code, encoded)
}
