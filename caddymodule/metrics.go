package caddymodule

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// metrics are the collectors of this Caddy. They are made once, so that their
// values go on over reloads; each configuration has a registry of its own, in
// which they are registered again.
var metrics = struct {
	bufferStarted, bufferFlushed, toolCalls, truncated prometheus.Counter
	bufferAborted                                      *prometheus.CounterVec
}{
	bufferStarted: counter("codex_tool_buffer_started_total", "Textual tool blocks that were begun."),
	bufferFlushed: counter("codex_tool_buffer_flushed_total", "Textual tool blocks that were complete calls."),
	bufferAborted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_tool_buffer_aborted_total",
		Help: "Textual tool blocks that were begun and no calls, by reason.",
	}, []string{"reason"}),
	toolCalls: counter("codex_tool_calls_total", "Tool calls that clients got."),
	truncated: counter("codex_tool_calls_truncated_total", "Turns that had more tool calls than allowed."),
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// registerMetrics registers the collectors with a configuration's registry.
// Two handlers in one configuration share it.
func registerMetrics(ctx caddy.Context) error {
	registry := ctx.GetMetricsRegistry()
	for _, c := range []prometheus.Collector{
		metrics.bufferStarted, metrics.bufferFlushed, metrics.bufferAborted, metrics.toolCalls, metrics.truncated,
	} {
		if err := registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return err
		}
	}
	return nil
}

// observer counts turns in the metrics and in the book of usage.
type observer struct{}

// AnswerBegan counts nothing.
func (observer) AnswerBegan(bool) func() { return func() {} }

// RequestFailed counts nothing.
func (observer) RequestFailed(*http.Request, *openai.Error) {}

// TurnEnded counts a turn.
func (observer) TurnEnded(r gateway.Record) {
	book.TurnEnded(r)
	metrics.bufferStarted.Add(float64(r.Tools.Started))
	metrics.bufferFlushed.Add(float64(r.Tools.Flushed))
	metrics.toolCalls.Add(float64(r.Tools.Calls))
	if r.Tools.Truncated {
		metrics.truncated.Inc()
	}
	for reason, n := range r.Tools.Aborted {
		metrics.bufferAborted.WithLabelValues(string(reason)).Add(float64(n))
	}
}
