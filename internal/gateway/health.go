package gateway

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Health serves GET /healthz. The answer is 200 in any state of the app-servers.
func (g *Gateway) Health(w http.ResponseWriter, r *http.Request) {
	g.writeHealth(w, r, http.StatusOK, []byte(`{"status":"ok"}`))
}

type readiness struct {
	Status string `json:"status"` // "ready" or "unavailable"
	member
	// AppServers has all app-servers, if there is more than one.
	AppServers []member `json:"app_servers,omitempty"`
	// Store is "unavailable" if responses cannot be read, or cannot be stored, now. Turns still run.
	Store string `json:"store,omitempty"`
}

// member has the public part of an app-server's state. The admin API has more.
type member struct {
	AppServer string `json:"app_server"`       // the state of the app-server
	Login     string `json:"login,omitempty"`  // "failing", "spent" or "signed_out"; empty: none of these
	Reason    string `json:"reason,omitempty"` // why the app-server or the login is not ready
}

// Ready serves GET /readyz. The answer is 200 if an app-server accepts turns and its login can serve
// them, as far as is known. Otherwise the answer is a 503 that says why; Retry-After is set if the cause
// may end by itself. A login that has failed, or is spent, rests for a time. After that the answer is 200
// again (unless Codex still cannot learn the login's account), even if the login may still fail: a balancer
// that has removed this node would otherwise never send the request that tries the login. The answer has no
// details of this machine, since clients need no key for it.
func (g *Gateway) Ready(w http.ResponseWriter, r *http.Request) {
	lease, err := g.upstream.Lease()
	if err != nil {
		g.writeHealth(w, r, http.StatusServiceUnavailable, wirejson.Append(nil, readiness{Status: "unavailable", member: member{Reason: err.Error()}}))
		return
	}
	defer lease.Release()
	picked, done := lease.Peek("")
	defer done()
	best, login := picked.Process.Status(), picked.Login
	body := readiness{Status: "ready", member: memberOf(best, login)}
	if lease.Len() > 1 {
		for _, one := range lease.Members() {
			body.AppServers = append(body.AppServers, memberOf(one.Process.Status(), one.Login))
		}
	}
	if g.opts.Responses != nil && g.opts.Responses.Fails() {
		body.Store = "unavailable"
	}
	code, retryAt := http.StatusOK, best.RetryAt
	status := login.Status()
	resting := time.Now().Before(status.RestsUntil) || best.AccountFailure != nil && status.Cause != ""
	if resting { // the app-server may be ready, so RetryAt may not be set
		retryAt = status.RestsUntil
	}
	if resting || best.State != appserver.StateReady {
		body.Status, code = "unavailable", http.StatusServiceUnavailable
		if !best.Final { // the state may end by itself
			retry := max(1, math.Ceil(time.Until(retryAt).Seconds()))
			w.Header().Set("Retry-After", strconv.FormatFloat(retry, 'f', 0, 64))
		}
	}
	g.writeHealth(w, r, code, wirejson.Append(nil, body))
}

func memberOf(s appserver.Status, login *loginstate.Login) member {
	m, status := member{AppServer: s.State.String(), Reason: s.Remedy}, login.Status()
	if status.Cause != "" {
		m.Login, m.Reason = string(status.State), cmp.Or(m.Reason, status.Cause.Reason())
	}
	return m
}

// writeHealth writes a body. It claims no memory: the body is short, and must be sent at any time.
func (g *Gateway) writeHealth(w http.ResponseWriter, r *http.Request, code int, body []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	limitWrite(w)
	w.WriteHeader(code)
	_, err := w.Write(body)
	g.report(r, requestOutcome{deliveryErr: err})
}
