package caddymodule

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// observer counts requests and turns in the metrics and in the book of usage,
// and logs turns.
type observer struct {
	turns *zap.Logger
}

// AnswerBegan counts the answers that are being made.
func (observer) AnswerBegan(stream bool) func() {
	gauges := []prometheus.Gauge{metrics.answers}
	if stream {
		gauges = append(gauges, metrics.streams)
	}
	for _, g := range gauges {
		g.Inc()
	}
	return func() {
		for _, g := range gauges {
			g.Dec()
		}
	}
}

// RequestFailed notes why a request failed.
func (observer) RequestFailed(r *http.Request, e *openai.Error) { note(r, e) }

// TurnEnded counts and logs a turn.
func (o observer) TurnEnded(r gateway.Record) {
	book.TurnEnded(r)
	logTurn(o.turns, r)
	countTurn(r)
}

// countTurn counts a turn in the metrics.
func countTurn(r gateway.Record) {
	model := modelLabels.of(r.Model)
	if r.Choice == 0 { // it stands for the request
		failure := ""
		if r.Status >= http.StatusBadRequest {
			failure = r.Code.Label()
		}
		metrics.duration.WithLabelValues(operation, provider, model, failure).Observe(r.Duration.Seconds())
	}
	if r.FirstOutput > 0 {
		metrics.firstOutput.WithLabelValues(operation, provider, model).Observe(r.FirstOutput.Seconds())
	}
	if r.Usage.TotalTokens > 0 {
		metrics.tokens.WithLabelValues(operation, provider, model, "input").Observe(float64(r.Usage.InputTokens))
		metrics.tokens.WithLabelValues(operation, provider, model, "output").Observe(float64(r.Usage.OutputTokens))
		metrics.cached.WithLabelValues(model).Add(float64(r.Usage.CachedInputTokens))
		metrics.reasoning.WithLabelValues(model).Add(float64(r.Usage.ReasoningOutputTokens))
	}
	metrics.bufferStarted.Add(float64(r.Tools.Started))
	metrics.bufferFlushed.Add(float64(r.Tools.Flushed))
	metrics.toolCalls.Add(float64(r.Tools.Calls))
	metrics.duplicates.Add(float64(r.Tools.Duplicates))
	metrics.unwritable.Add(float64(r.Tools.Unwritable))
	if r.Tools.Truncated {
		metrics.truncated.Inc()
	}
	for reason, n := range r.Tools.Aborted {
		metrics.bufferAborted.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// countRequest counts a request of a route by what has become of it.
func countRequest(route string, t *tally) {
	status := http.StatusOK
	if t.failure != nil {
		status = t.failure.Status
		metrics.errors.WithLabelValues(t.failure.Code.Label()).Inc()
	}
	metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// Interface guard
var _ gateway.Observer = observer{}
