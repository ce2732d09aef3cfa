package caddymodule

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// states are those that a process in the pool may be in.
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

	runningDesc = prometheus.NewDesc("codex_turns_running", "Turns that run.", nil, nil)
	bodiesDesc  = prometheus.NewDesc("codex_body_memory_bytes", "Memory of the bodies of requests that are read, wait or are being started.", nil, nil)
	waitingDesc = prometheus.NewDesc("codex_queue_waiting", "Requests that wait for a place to run.", nil, nil)
)

func processDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"app_server"}, labels...), nil)
}

// stateCollector tells the state of what there is at the moment: app-servers
// and queues. All of its kind are equal, so that a registry takes one.
type stateCollector struct{}

// Describe lists the metrics.
func (stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		stateDesc, restartsDesc, replacementsDesc, threadsDesc, drainingDesc, memoryDesc, runningDesc, waitingDesc, bodiesDesc,
	} {
		to <- desc
	}
}

// Collect reads the state.
func (stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, w := range watches() {
		collectProcess(to, w.id, w.process.Status())
	}
	running, waiting := queues.sum()
	to <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(running))
	to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	to <- prometheus.MustNewConstMetric(bodiesDesc, prometheus.GaugeValue, float64(queues.bodyMemory()))
}

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
