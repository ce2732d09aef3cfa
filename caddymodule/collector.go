package caddymodule

import (
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// states are the states of a process in the pool.
var states = []appserver.State{
	appserver.StateNew, appserver.StateStarting, appserver.StateReady, appserver.StateUnresponsive,
	appserver.StateBackoff, appserver.StateStopping, appserver.StateStopped,
}

var (
	stateDesc        = processDesc("codex_app_server_state", "1 for the state that the app-server is in, 0 for the others.", "state")
	restartsDesc     = processDesc("codex_app_server_restarts_total", "Starts after the first.")
	replacementsDesc = processDesc("codex_app_server_replacements_total", "Programs that were replaced while they ran.")
	threadsDesc      = processDesc("codex_app_server_threads", "Threads that are loaded.")
	drainingDesc     = processDesc("codex_app_server_draining", "Replaced programs that still run turns.")
	memoryDesc       = processDesc("codex_app_server_memory_bytes", "Memory of the app-server; left out if it is not known.")

	conversationsDesc = processDesc("codex_conversations", "Threads that are kept for the next request of their conversations: idle, or parked with a turn that waits for results.", "state")
	followUpsDesc     = processDesc("codex_conversation_follow_ups_total", "Requests that went on in a thread that was kept: continued in it, or resumed its parked turn.", "how")
	fallbacksDesc     = processDesc("codex_conversation_fallbacks_total", "Requests that got a fresh thread, since theirs was gone or could not go on.", "reason")

	planDesc         = processDesc("codex_login_plan_info", "1 for the plan of the login; left out if it is not known.", "plan")
	usedDesc         = processDesc("codex_login_used_percent", "How much of a window of the plan is used, as Codex reported it last.", "window")
	windowResetsDesc = processDesc("codex_login_window_resets_timestamp_seconds", "When a window of the plan resets.", "window")
	creditsDesc      = processDesc("codex_login_credits", "Credits that the account has besides its plan; left out if they are unlimited or not known.")

	loginDesc  = processDesc("codex_login_state", "1 for the state that the login of the app-server is in, 0 for the others.", "state")
	resetsDesc = processDesc("codex_login_resets_timestamp_seconds", "When the spent plan of the login resets; left out if it is not spent, or not known.")

	buildDesc = prometheus.NewDesc("codex_build_info", "1, with the versions of this module, of Caddy and of each Codex that runs; codex is empty while none is known.", []string{"version", "caddy", "codex"}, nil)

	runningDesc = prometheus.NewDesc("codex_turns_running", "Turns that run.", nil, nil)
	bodiesDesc  = prometheus.NewDesc("codex_body_memory_bytes", "Memory of the bodies of requests that are read, wait or are being started.", nil, nil)
	waitingDesc = prometheus.NewDesc("codex_queue_waiting", "Requests that wait for a place to run.", nil, nil)
)

// processDesc describes a metric of one app-server.
func processDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"app_server"}, labels...), nil)
}

// stateCollector collects the current state of the app-servers and the gateways. All
// its values are equal, so that a registry accepts only one.
type stateCollector struct{}

// Describe sends the descriptions of the metrics.
func (stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		stateDesc, restartsDesc, replacementsDesc, threadsDesc, drainingDesc, memoryDesc, conversationsDesc, followUpsDesc, fallbacksDesc, loginDesc, resetsDesc, planDesc, usedDesc, windowResetsDesc, creditsDesc, runningDesc, waitingDesc, bodiesDesc, buildDesc,
		keyLimitDesc, keyUsedDesc, keyExhaustedDesc,
	} {
		to <- desc
	}
}

// Collect sends the current values.
func (stateCollector) Collect(to chan<- prometheus.Metric) {
	releases := make(map[string]bool)
	for _, m := range monitors() {
		status := m.process.Status()
		releases[status.Version] = true
		collectProcess(to, m.id, status)
		collectConversations(to, m.id, m.process.conversations.Stats())
		collectLogin(to, m.id, m.process.login)
		if conn := m.process.Serving(); conn != nil {
			limits, _ := conn.LastRateLimits()
			collectLimits(to, m.id, limits)
		}
	}
	collectBuild(to, releases)
	collectKeys(to)
	running, waiting := gateways.turns()
	to <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(running))
	to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	to <- prometheus.MustNewConstMetric(bodiesDesc, prometheus.GaugeValue, float64(gateways.bodyMemory()))
}

// caddyVersion is the version of Caddy.
var caddyVersion = sync.OnceValue(func() string {
	simple, _ := caddy.Version()
	return simple
})

// collectBuild sends the versions, with those of Codex that run.
func collectBuild(to chan<- prometheus.Metric, releases map[string]bool) {
	if len(releases) > 1 {
		delete(releases, "") // not known yet
	}
	if len(releases) == 0 {
		releases[""] = true
	}
	for codex := range releases {
		to <- prometheus.MustNewConstMetric(buildDesc, prometheus.GaugeValue, 1, version(), caddyVersion(), strings.ToValidUTF8(codex, ""))
	}
}

// collectProcess sends the values of one app-server.
func collectProcess(to chan<- prometheus.Metric, id string, s appserver.Status) {
	for _, state := range states {
		is := 0.0
		if s.State == state {
			is = 1
		}
		to <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, is, id, state.String())
	}
	to <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(s.Restarts), id)
	to <- prometheus.MustNewConstMetric(replacementsDesc, prometheus.CounterValue, float64(s.Replacements), id)
	to <- prometheus.MustNewConstMetric(threadsDesc, prometheus.GaugeValue, float64(s.Threads), id)
	to <- prometheus.MustNewConstMetric(drainingDesc, prometheus.GaugeValue, float64(s.Draining), id)
	if s.Memory > 0 {
		to <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(s.Memory), id)
	}
}

// collectConversations sends the values of the conversations of one app-server.
func collectConversations(to chan<- prometheus.Metric, id string, s threads.Stats) {
	for state, n := range map[string]int{"idle": s.Kept - s.Parked, "parked": s.Parked} {
		to <- prometheus.MustNewConstMetric(conversationsDesc, prometheus.GaugeValue, float64(n), id, state)
	}
	for how, n := range map[string]int{"continued": s.Continued, "resumed": s.Resumed} {
		to <- prometheus.MustNewConstMetric(followUpsDesc, prometheus.CounterValue, float64(n), id, how)
	}
	for reason, n := range s.Fallbacks {
		to <- prometheus.MustNewConstMetric(fallbacksDesc, prometheus.CounterValue, float64(n), id, reason)
	}
}

// collectLogin sends the values of the login of one app-server.
func collectLogin(to chan<- prometheus.Metric, id string, login *login) {
	status := login.Status()
	for _, state := range loginstate.States {
		is := 0.0
		if status.State == state {
			is = 1
		}
		to <- prometheus.MustNewConstMetric(loginDesc, prometheus.GaugeValue, is, id, string(state))
	}
	if resets := status.ResetsAt; !resets.IsZero() {
		to <- prometheus.MustNewConstMetric(resetsDesc, prometheus.GaugeValue, float64(resets.Unix()), id)
	}
}

// collectLimits sends what is known of the plan of one app-server.
func collectLimits(to chan<- prometheus.Metric, id string, limits codexrpc.RateLimits) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{id}, labels...)...)
	}
	if limits.Plan != "" {
		gauge(planDesc, 1, logged(limits.Plan))
	}
	seen := ""
	for _, w := range limits.Windows() {
		name := w.Name()
		if name == seen {
			continue // a registry refuses a second value
		}
		seen = name
		gauge(usedDesc, w.UsedPercent, name)
		if !w.ResetsAt.IsZero() {
			gauge(windowResetsDesc, float64(w.ResetsAt.Unix()), name)
		}
	}
	if c := limits.Credits; c != nil && !c.Unlimited {
		if balance, err := strconv.ParseFloat(c.Balance, 64); err == nil {
			gauge(creditsDesc, balance)
		}
	}
}

// gateways are those of the handlers of all configurations in use, for the metrics and
// the admin API.
var gateways gatewaySet

// gatewaySet is a set of gateways. The zero value is empty and ready to use.
type gatewaySet struct {
	mu  sync.Mutex
	set map[*gateway.Gateway]bool
}

func (s *gatewaySet) add(g *gateway.Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*gateway.Gateway]bool)
	}
	s.set[g] = true
}

// remove removes the gateway of a configuration that gets no new requests. Its old ones
// may still run.
func (s *gatewaySet) remove(g *gateway.Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, g)
}

// turns counts the turns that run and the requests that wait.
func (s *gatewaySet) turns() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.set {
		r, w := g.Queue()
		running += r
		waiting += w
	}
	return running, waiting
}

// bodyMemory sums up the memory of request bodies, in bytes.
func (s *gatewaySet) bodyMemory() (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.set {
		sum += g.BodyMemory()
	}
	return sum
}
