package caddymodule

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// registry has the metrics of this process. They exist once, so that a reload keeps their
// values; the registry of each configuration collects them. No label has a value that a
// client can choose freely.
var registry = prometheus.NewRegistry()

// metrics are those that are counted as things happen.
var metrics = struct {
	requests, errors, cached, reasoning, bufferAborted *prometheus.CounterVec
	bufferStarted, bufferFlushed, toolCalls, truncated prometheus.Counter
	duplicates, unwritable                             prometheus.Counter
	answers, streams                                   prometheus.Gauge
	duration, firstOutput, tokens                      *prometheus.HistogramVec
}{
	requests: counterVec("codex_requests_total", "Requests of the API, by route and status.", "route", "status"),
	errors:   counterVec("codex_request_errors_total", "Requests that failed, before or within their answer, by the error's code.", "code"),
	answers:  gauge("codex_answers_active", "Answers that are being made."),
	streams:  gauge("codex_streams_active", "Answers that are being streamed."),

	duration: histogram("gen_ai_server_request_duration_seconds", "From a request's arrival to the end of its answer.",
		durationBuckets, labelOperation, labelProvider, labelModel, labelError),
	firstOutput: histogram("gen_ai_server_time_to_first_token_seconds", "From a request's arrival to the first text, reasoning or tool call.",
		firstOutputBuckets, labelOperation, labelProvider, labelModel),
	tokens: histogram("gen_ai_client_token_usage", "Tokens of a turn.",
		tokenBuckets, labelOperation, labelProvider, labelModel, labelTokenType),
	cached:    counterVec("codex_cached_input_tokens_total", "Input tokens that the provider had in its cache.", labelModel),
	reasoning: counterVec("codex_reasoning_output_tokens_total", "Output tokens of reasoning.", labelModel),

	bufferStarted: counter("codex_tool_buffer_started_total", "Textual tool blocks that were begun."),
	bufferFlushed: counter("codex_tool_buffer_flushed_total", "Textual tool blocks that were complete calls."),
	bufferAborted: counterVec("codex_tool_buffer_aborted_total", "Textual tool blocks that were begun and no calls, by reason.", "reason"),
	toolCalls:     counter("codex_tool_calls_total", "Tool calls that clients got."),
	truncated:     counter("codex_tool_calls_truncated_total", "Turns that had more tool calls than allowed."),
	duplicates:    counter("codex_tool_calls_duplicate_total", "Tool calls that were dropped since they repeat another."),
	unwritable:    counter("codex_tool_calls_unwritable_total", "Tool calls in obsidian-xml that no block can hold."),
}

// The names are those of OpenTelemetry's semantic conventions for generative AI, in the
// form that Prometheus uses.
const (
	labelOperation = "gen_ai_operation_name"
	labelProvider  = "gen_ai_provider_name"
	labelModel     = "gen_ai_request_model"
	labelTokenType = "gen_ai_token_type"
	labelError     = "error_type"

	operation = "chat"
	provider  = "openai"
)

// The buckets are those of the conventions, with additional ones for reasoning models,
// which take longer.
var (
	durationBuckets    = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36}
	firstOutputBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	tokenBuckets       = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

func counter(name, help string) prometheus.Counter {
	return promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return promauto.With(registry).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func init() {
	// A rate is known only of a counter that was there before its first event.
	for _, code := range apierror.Labels() {
		metrics.errors.WithLabelValues(code)
	}
	registry.MustRegister(stateCollector{})
}

// registerMetrics adds the metrics to those of a configuration, which all of its handlers
// share.
func registerMetrics(ctx caddy.Context) error {
	err := ctx.GetMetricsRegistry().Register(registry)
	if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		return nil
	}
	return err
}

const (
	// maxModelLabels bounds the models that have a label of their own.
	maxModelLabels = 50
	// otherModel is the label of all other models.
	otherModel = "other"
)

// modelLabels are the models that have a label: those that Codex lists and the
// configured aliases, not a name that a client made up.
var modelLabels = labels{limit: maxModelLabels}

// learnModels gives the models that Codex lists their labels in the metrics. If it fails,
// they count as "other".
func (p *process) learnModels() {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	conn, err := p.Conn(ctx)
	if err != nil {
		return
	}
	models, err := conn.Models(ctx)
	if err != nil {
		return
	}
	for _, model := range models {
		modelLabels.add(model.ID)
	}
}

// labels is a bounded set of values of a label. No value is ever removed, since the
// metrics keep it.
type labels struct {
	limit int
	mu    sync.RWMutex
	known map[string]bool
}

// add adds values while there is room.
func (l *labels) add(values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, value := range values {
		if len(l.known) >= l.limit {
			return
		}
		if l.known == nil {
			l.known = make(map[string]bool)
		}
		l.known[strings.ToValidUTF8(value, "")] = true
	}
}

// of returns the label of a value: the value itself, or "other".
func (l *labels) of(value string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.known[value] {
		return value
	}
	return otherModel
}
