package caddymodule

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// registry has the metrics of this process. Each configuration's own registry collects from it, so
// that a reload keeps the values. No client can choose a label's value freely.
var registry = prometheus.NewRegistry()

// These metrics are stored, and change when something happens. A [reading] is computed when collected.
var (
	requestsMetric = counterVec("codex_requests_total", "Requests of the API, by route and status.", "route", "status")
	errorsMetric   = counterVec("codex_request_errors_total", "Requests that failed, before or within their answer, by the error's code.", "code")
	answersMetric  = gauge("codex_answers_active", "Answers that are being made.")
	streamsMetric  = gauge("codex_streams_active", "Answers that are being streamed.")

	durationMetric = histogram("gen_ai_server_request_duration_seconds", "From a request's arrival to the end of its answer.",
		durationBuckets, labelOperation, labelProvider, labelModel, labelError)
	firstOutputMetric = histogram("gen_ai_server_time_to_first_token_seconds", "From a request's arrival to the first text, reasoning or tool call.",
		firstOutputBuckets, labelOperation, labelProvider, labelModel)
	tokensMetric = histogram("gen_ai_client_token_usage", "Tokens of a turn.",
		tokenBuckets, labelOperation, labelProvider, labelModel, labelTokenType)
	cachedMetric    = counterVec("codex_cached_input_tokens_total", "Input tokens that the provider had in its cache.", labelModel)
	reasoningMetric = counterVec("codex_reasoning_output_tokens_total", "Output tokens of reasoning.", labelModel)
	priceMetric     = counterVec("codex_price_total", "What providers ask for turns, as far as they say it, in their unit of money.", labelModel)

	bufferStartedMetric = counter("codex_tool_buffer_started_total", "Textual tool blocks that were begun.")
	bufferFlushedMetric = counter("codex_tool_buffer_flushed_total", "Textual tool blocks that were complete calls.")
	bufferAbortedMetric = counterVec("codex_tool_buffer_aborted_total", "Textual tool blocks that were begun and no calls, by reason.", "reason")
	toolCallsMetric     = counter("codex_tool_calls_total", "Tool calls that clients got.")
	truncatedMetric     = counter("codex_tool_calls_truncated_total", "Turns that had more tool calls than allowed.")
	duplicatesMetric    = counter("codex_tool_calls_duplicate_total", "Tool calls that were dropped since they repeat another.")
	notStoredMetric     = counter("codex_answers_not_stored_total", "Answers that the store could not store, or could not add to their conversation.")
	unwritableMetric    = counter("codex_tool_calls_unwritable_total", "Tool calls in obsidian-xml that no block can hold.")
)

// The labels have the names of OpenTelemetry's conventions for generative AI, in Prometheus' form.
const (
	labelOperation = "gen_ai_operation_name"
	labelProvider  = "gen_ai_provider_name"
	labelModel     = "gen_ai_request_model"
	labelTokenType = "gen_ai_token_type"
	labelError     = "error_type"

	operation = "chat"
	provider  = "openai"
)

// The buckets are OpenTelemetry's for generative AI, and larger ones for reasoning models.
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
	// The counters begin at 0: Prometheus would not see a first appearance as an increase.
	for _, code := range apierror.Labels() {
		errorsMetric.WithLabelValues(code)
	}
	registry.MustRegister(stateCollector{}, store.DurationMetric, store.FailuresMetric)
}

// modelLabels are the models with a label of their own: the models that Codex lists and the
// configured aliases. All other models, whose names clients may have made up, share otherModel.
var modelLabels = labelSet{limit: 50}

// otherModel is the label of all models without a label of their own.
const otherModel = "other"

// learnModels adds the models that Codex lists, if it can read the list, to modelLabels.
func learnModels(p *pool.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	if in, err := p.Instance(ctx); err == nil {
		models, _ := in.Models(ctx)
		for _, model := range models {
			modelLabels.add(model.ID)
		}
	}
}

// labelSet is a bounded set of models. No model is removed, since Prometheus keeps its values.
type labelSet struct {
	limit int
	mu    sync.RWMutex
	known map[string]bool
}

func (l *labelSet) add(values ...string) {
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

func (l *labelSet) labelOf(model string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.known[model] {
		return model
	}
	return otherModel
}

var states = []appserver.State{
	appserver.StateNew, appserver.StateStarting, appserver.StateReady, appserver.StateUnresponsive,
	appserver.StateBackoff, appserver.StateStopping, appserver.StateStopped,
}

// reading is a metric whose value is read when it is collected.
type reading struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

var readingDescs []*prometheus.Desc

// newReading adds the description of a reading to readingDescs. If name ends in _total, the reading
// is a counter.
func newReading(name, help string, labels ...string) reading {
	r := reading{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
	if strings.HasSuffix(name, "_total") {
		r.kind = prometheus.CounterValue
	}
	readingDescs = append(readingDescs, r.desc)
	return r
}

func newProcessReading(name, help string, labels ...string) reading {
	return newReading(name, help, append([]string{"app_server"}, labels...)...)
}

var (
	stateReading        = newProcessReading("codex_app_server_state", "1 for the state that the app-server is in, 0 for the others.", "state")
	restartsReading     = newProcessReading("codex_app_server_restarts_total", "Starts after the first.")
	replacementsReading = newProcessReading("codex_app_server_replacements_total", "Programs that were replaced while they ran.")
	threadsReading      = newProcessReading("codex_app_server_threads", "Threads that are loaded.")
	drainingReading     = newProcessReading("codex_app_server_draining", "Replaced programs that still run turns.")
	memoryReading       = newProcessReading("codex_app_server_memory_bytes", "Memory of the app-server; left out if it is not known.")

	conversationsReading = newProcessReading("codex_conversations", "Threads that are kept for the next request of their conversations: idle, or parked with a turn that waits for results; and spare ones, for requests that begin a conversation.", "state")
	followUpsReading     = newProcessReading("codex_conversation_follow_ups_total", "Requests that went on in a thread that was kept: continued in it, or resumed its parked turn.", "how")
	fallbacksReading     = newProcessReading("codex_conversation_fallbacks_total", "Requests that got a fresh thread, since theirs was gone or could not go on.", "reason")

	planReading         = newProcessReading("codex_login_plan_info", "1 for the plan of the login; left out if it is not known.", "plan")
	usedReading         = newProcessReading("codex_login_used_percent", "How much of a window of the plan is used, as Codex reported it last.", "window", "limit")
	windowResetsReading = newProcessReading("codex_login_window_resets_timestamp_seconds", "When a window of the plan resets.", "window", "limit")
	creditsReading      = newProcessReading("codex_login_credits", "Credits that the account has besides its plan; left out if they are unlimited or not known.")

	loginReading  = newProcessReading("codex_login_state", "1 for the state that the login of the app-server is in, 0 for the others.", "state")
	causeReading  = newProcessReading("codex_login_trouble", "1 for the cause that keeps the login from working; left out if there is none.", "cause")
	resetsReading = newProcessReading("codex_login_resets_timestamp_seconds", "When the spent plan of the login resets; left out if it is not spent, or not known.")

	buildReading = newReading("codex_build_info", "1, with the versions of this module, of Caddy and of each Codex that runs; codex is empty while none is known.", "version", "caddy", "codex")

	runningReading = newReading("codex_turns_running", "Turns that run.")
	bodiesReading  = newReading("codex_body_memory_bytes", "Memory of the bodies of requests that are read, wait or are being started.")
	waitingReading = newReading("codex_queue_waiting", "Requests that wait for a place to run.")

	storeReading     = newReading("codex_store_state", "1 for the state that the store is in, 0 for the other: works, or fails (it cannot be read or not changed).", "store", "state")
	unsettledReading = newReading("codex_store_unsettled", "Turns that do not count towards the limits of their keys yet, since Redis did not work.", "store")
)

// stateCollector collects the current state of the app-servers, the keys and the gateways.
type stateCollector struct{}

// Describe sends the descriptions of the metrics.
func (stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range readingDescs {
		ch <- desc
	}
}

// Collect sends the current values.
func (stateCollector) Collect(ch chan<- prometheus.Metric) {
	codexVersions := make(map[string]bool)
	for _, p := range supervisor.All() {
		codexVersions[p.Status().Version] = true
		collectProcess(ch, p)
		collectLogin(ch, p)
	}
	collectBuild(ch, codexVersions)
	collectKeys(ch)
	running, waiting, bodyBytes := queueTotals()
	send(ch, runningReading, running)
	send(ch, waitingReading, waiting)
	send(ch, bodiesReading, bodyBytes)
	for engine, store := range storemodules.States() {
		sendState(ch, storeReading, []string{status.StoreWorks, status.StoreFails}, store.State, engine)
		send(ch, unsettledReading, store.Unsettled, engine)
	}
}

func send[T int | int64 | float64](ch chan<- prometheus.Metric, r reading, value T, labels ...string) {
	ch <- prometheus.MustNewConstMetric(r.desc, r.kind, float64(value), labels...)
}

// sendState sends 1 for the current state and 0 for each other state.
func sendState[T comparable](ch chan<- prometheus.Metric, r reading, allStates []T, current T, id string) {
	for _, state := range allStates {
		value := 0
		if state == current {
			value = 1
		}
		send(ch, r, value, id, fmt.Sprint(state))
	}
}

func collectBuild(ch chan<- prometheus.Metric, codexVersions map[string]bool) {
	if len(codexVersions) > 1 {
		delete(codexVersions, "") // the version of an app-server that has not reported its version yet
	}
	if len(codexVersions) == 0 {
		codexVersions[""] = true
	}
	caddyVersion, _ := caddy.Version()
	for codexVersion := range codexVersions {
		send(ch, buildReading, 1, version(), caddyVersion, strings.ToValidUTF8(codexVersion, ""))
	}
}

func collectProcess(ch chan<- prometheus.Metric, p *pool.Process) {
	s := p.Status()
	sendState(ch, stateReading, states, s.State, p.ID())
	send(ch, restartsReading, s.Restarts, p.ID())
	send(ch, replacementsReading, s.Replacements, p.ID())
	send(ch, threadsReading, s.Threads, p.ID())
	send(ch, drainingReading, s.Draining, p.ID())
	if s.Memory > 0 {
		send(ch, memoryReading, s.Memory, p.ID())
	}
	c := p.Conversations.Stats()
	send(ch, conversationsReading, c.Kept-c.Parked, p.ID(), "idle")
	send(ch, conversationsReading, c.Parked, p.ID(), "parked")
	send(ch, conversationsReading, c.Spare, p.ID(), "spare")
	send(ch, followUpsReading, c.Continued, p.ID(), "continued")
	send(ch, followUpsReading, c.Resumed, p.ID(), "resumed")
	for reason, n := range c.Fallbacks {
		send(ch, fallbacksReading, n, p.ID(), reason)
	}
}

func collectLogin(ch chan<- prometheus.Metric, p *pool.Process) {
	login := p.Login().Status()
	sendState(ch, loginReading, loginstate.States, login.State, p.ID())
	if login.Cause != "" {
		send(ch, causeReading, 1, p.ID(), string(login.Cause))
	}
	if !login.ResetsAt.IsZero() {
		send(ch, resetsReading, login.ResetsAt.Unix(), p.ID())
	}
	if limits := p.Login().Limits(); limits != nil {
		collectLimits(ch, p.ID(), limits)
	}
}

func collectLimits(ch chan<- prometheus.Metric, id string, limits *codexrpc.RateLimits) {
	if limits.Plan != "" {
		send(ch, planReading, 1, id, usage.Shorten(limits.Plan))
	}
	for i := range limits.Meters {
		meter := &limits.Meters[i]
		sameName := func(a, b *codexrpc.RateWindow) bool { return a.Name() == b.Name() } // a registry refuses two values with the same labels
		for _, w := range slices.CompactFunc(meter.Windows(), sameName) {
			if w.Over(time.Now()) {
				continue
			}
			send(ch, usedReading, w.UsedPercent, id, w.Name(), usage.Shorten(meter.ID))
			if !w.ResetsAt.IsZero() {
				send(ch, windowResetsReading, w.ResetsAt.Unix(), id, w.Name(), usage.Shorten(meter.ID))
			}
		}
	}
	if c := limits.Credits; c != nil && !c.Unlimited {
		if balance, err := strconv.ParseFloat(c.Balance, 64); err == nil {
			send(ch, creditsReading, balance, id)
		}
	}
}
