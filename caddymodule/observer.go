package caddymodule

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// observer counts answers and turns, adds turns to their users' usage, and logs turns.
type observer struct {
	turnLogger  *zap.Logger
	sharedUsage *usage.Shared // the usage of all nodes; nil: there is none
}

// AnswerBegan counts an active answer (a stream also as such) until the returned function is called.
func (observer) AnswerBegan(stream bool) func() {
	answersMetric.Inc()
	if !stream {
		return answersMetric.Dec
	}
	streamsMetric.Inc()
	return func() {
		streamsMetric.Dec()
		answersMetric.Dec()
	}
}

// RequestFailed records why a request failed.
func (observer) RequestFailed(r *http.Request, e *apierror.Error) {
	setFailure(r, e)
	traceFailure(r.Context(), e)
}

// TurnsEnded counts and logs the turns of a request, and adds their data to the request's trace.
func (o observer) TurnsEnded(ctx context.Context, turns []usage.Record) {
	for i := range turns {
		usageBook.Add(turns[i])
		o.sharedUsage.Add(turns[i])
		logTurn(o.turnLogger, &turns[i])
		countTurn(&turns[i])
		reportLimits(&turns[i])
	}
	traceTurns(ctx, turns)
	if reqCtx, ok := ctx.Value(requestContextKey{}).(*requestContext); ok {
		reqCtx.turns = turns
	}
}

// requestContext is the context of a request. It also has the request's result, and values that are
// looked up or allocated only once for the request. Only the request's goroutine uses its fields.
type requestContext struct {
	context.Context
	failure    *apierror.Error           // nil: the request succeeded
	encoder    apierror.Encoder          // of errors; nil: OpenAI's
	user       string                    // what userOf returns; empty until identified is true
	identified bool                      // userOf was called, so user is valid
	ids        [2]string                 // the id of the request, twice: as the values of two headers
	turns      []usage.Record            // the turns of the answer; nil until they have ended
	passOn     func(body io.Reader) bool // see newPassOn; nil without the option spent
	passedOn   bool                      // the next handler has served the request
	nextErr    error                     // of the next handler, after passOn
}

type requestContextKey struct{}

// Value returns c itself for requestContextKey, and the encoder of errors for [apierror.EncoderKey].
func (c *requestContext) Value(key any) any {
	switch key {
	case requestContextKey{}:
		return c
	case apierror.EncoderKey{}:
		return c.encoder
	}
	return c.Context.Value(key)
}

// setFailure records why a request failed: the first error, which the client receives.
func setFailure(r *http.Request, e *apierror.Error) {
	if reqCtx, ok := r.Context().Value(requestContextKey{}).(*requestContext); ok && reqCtx.failure == nil {
		reqCtx.failure = e
	}
}

func countRequest(route string, failure *apierror.Error) {
	status := http.StatusOK
	if failure != nil {
		status = failure.Status
		errorsMetric.WithLabelValues(failure.Code.Label()).Inc()
	}
	requestsMetric.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

func countTurn(r *usage.Record) {
	model := modelLabels.labelOf(r.Model)
	if r.Choice == 0 { // only the first choice counts as a request
		failure := ""
		if r.Status >= http.StatusBadRequest {
			failure = r.Code.Label()
		}
		durationMetric.WithLabelValues(operation, provider, model, failure).Observe(r.Duration.Seconds())
	}
	if r.FirstOutput > 0 {
		firstOutputMetric.WithLabelValues(operation, provider, model).Observe(r.FirstOutput.Seconds())
	}
	if r.Usage.TotalTokens > 0 {
		tokensMetric.WithLabelValues(operation, provider, model, "input").Observe(float64(r.Usage.InputTokens))
		tokensMetric.WithLabelValues(operation, provider, model, "output").Observe(float64(r.Usage.OutputTokens))
		cachedMetric.WithLabelValues(model).Add(float64(r.Usage.CachedInputTokens))
		reasoningMetric.WithLabelValues(model).Add(float64(r.Usage.ReasoningOutputTokens))
	}
	if r.Price > 0 {
		priceMetric.WithLabelValues(model).Add(r.Price.Float())
	}
	if r.NotStored != "" {
		notStoredMetric.Inc()
	}
	bufferStartedMetric.Add(float64(r.Tools.Started))
	bufferFlushedMetric.Add(float64(r.Tools.Flushed))
	toolCallsMetric.Add(float64(r.Tools.Calls))
	duplicatesMetric.Add(float64(r.Tools.Duplicates))
	unwritableMetric.Add(float64(r.Tools.Unwritable))
	if r.Tools.Truncated {
		truncatedMetric.Inc()
	}
	for reason, n := range r.Tools.Aborted {
		bufferAbortedMetric.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// logTurn logs a turn in one line, without any text of the conversation and without keys.
func logTurn(logger *zap.Logger, r *usage.Record) {
	if entry := logger.Check(zap.InfoLevel, "turn"); entry != nil {
		entry.Write(zap.Inline(turnLine{r}))
	}
}

// turnLine writes the fields of a turn's log line one by one, without allocating a slice of them.
type turnLine struct{ *usage.Record }

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (r turnLine) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("request_id", r.RequestID)
	enc.AddString("user", r.User)
	enc.AddString("route", r.Route)
	enc.AddInt64("choice", int64(r.Choice))
	enc.AddString("model", usage.Shorten(r.Model))
	enc.AddString("output_mode", string(r.Mode))
	enc.AddBool("stream", r.Stream)
	enc.AddInt64("status", int64(r.Status))
	enc.AddFloat64("duration", r.Duration.Seconds())
	enc.AddInt64("input_tokens", r.Usage.InputTokens)
	enc.AddInt64("cached_input_tokens", r.Usage.CachedInputTokens)
	enc.AddInt64("cache_write_input_tokens", r.Usage.CacheWriteInputTokens)
	enc.AddInt64("output_tokens", r.Usage.OutputTokens)
	enc.AddInt64("reasoning_output_tokens", r.Usage.ReasoningOutputTokens)
	enc.AddBool("usage_estimated", r.Estimated)
	if r.Price > 0 {
		enc.AddFloat64("price", r.Price.Float())
	}
	enc.AddString("thread", r.Thread)
	enc.AddInt64("tool_calls", int64(r.Tools.Calls))
	enc.AddBool("tool_calls_truncated", r.Tools.Truncated)
	if r.Tools.Calls+r.Tools.Started > 0 {
		aborted := 0
		for _, n := range r.Tools.Aborted {
			aborted += n
		}
		enc.AddString("stop_after_tools", string(r.Stop))
		enc.AddInt64("tool_calls_duplicate", int64(r.Tools.Duplicates))
		enc.AddInt64("tool_calls_unwritable", int64(r.Tools.Unwritable))
		enc.AddInt64("tool_blocks_started", int64(r.Tools.Started))
		enc.AddInt64("tool_blocks_flushed", int64(r.Tools.Flushed))
		enc.AddInt64("tool_blocks_aborted", int64(aborted))
		enc.AddInt64("tool_tail_bytes", int64(r.Tools.TailBytes))
		zap.Strings("tool_overrides", r.Overrides).AddTo(enc)
	}
	if r.Key != "" {
		enc.AddString("key", r.Key)
	}
	if r.CodexModel == codexrpc.ReserveModel {
		enc.AddBool("luna_reserve", true)
	}
	if r.Code != "" {
		enc.AddString("code", usage.Shorten(string(r.Code)))
	}
	if r.Tools.TextDiffers {
		enc.AddBool("text_differs", true)
	}
	if r.Tools.Unoffered > 0 {
		enc.AddInt64("tool_calls_unoffered", int64(r.Tools.Unoffered))
	}
	if r.FirstOutput > 0 {
		enc.AddFloat64("first_output", r.FirstOutput.Seconds())
	}
	return nil
}

// traceTurns adds a request's turns to its trace span, by OpenTelemetry's conventions for
// generative AI, without any text. It skips a background response, whose span has ended before.
func traceTurns(ctx context.Context, turns []usage.Record) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || len(turns) == 0 {
		return
	}
	var used codexrpc.Usage
	var finish []string
	for _, r := range turns {
		used = used.Add(r.Usage)
		if r.Finish != "" {
			finish = append(finish, string(r.Finish))
		}
	}
	first := turns[0]
	span.SetAttributes(
		attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", usage.Shorten(first.Model)), attribute.String("gen_ai.response.model", usage.Shorten(first.CodexModel)),
		attribute.StringSlice("gen_ai.response.finish_reasons", finish),
		attribute.Int64("gen_ai.usage.input_tokens", used.InputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", used.OutputTokens),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", used.CachedInputTokens),
		attribute.Int64("gen_ai.usage.reasoning.output_tokens", used.ReasoningOutputTokens),
	)
	if len(turns) > 1 {
		span.SetAttributes(attribute.Int("gen_ai.request.choice.count", len(turns)))
	}
}

// traceFailure adds a request's error to its trace span. An error of the server marks the span as failed,
// since the HTTP status does not show an error that comes after a stream has begun.
func traceFailure(ctx context.Context, e *apierror.Error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("error.type", e.Code.Label()))
	if e.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, e.Code.Label())
	}
}

const placeholderPrefix = "http.codex."

// placeholders have names without placeholderPrefix. Their functions get a request's turns, one for
// each choice, after they have ended. Tokens and tool calls are sums over the turns; every other
// value is that of the first turn.
var placeholders = map[string]func([]usage.Record) any{
	"model":         func(turns []usage.Record) any { return usage.Shorten(turns[0].Model) },
	"api":           func(turns []usage.Record) any { return turns[0].Route },
	"thread":        func(turns []usage.Record) any { return turns[0].Thread },
	"finish_reason": func(turns []usage.Record) any { return string(turns[0].Finish) },
	"key":           func(turns []usage.Record) any { return turns[0].Key },
	"login":         func(turns []usage.Record) any { return appServerID(turns[0].Process) },
	"ttft_ms":       firstOutputMillis,
	"input_tokens":  sum(func(r *usage.Record) int64 { return r.Usage.InputTokens }),
	"cached_tokens": sum(func(r *usage.Record) int64 { return r.Usage.CachedInputTokens }),
	"output_tokens": sum(func(r *usage.Record) int64 { return r.Usage.OutputTokens }),
	"tool_calls":    sum(func(r *usage.Record) int64 { return int64(r.Tools.Calls) }),
}

// placeholder is a [caddy.ReplacerFunc]. A value is nil if it is empty, or if no turns have ended.
func (c *requestContext) placeholder(key string) (any, bool) {
	name, hasPrefix := strings.CutPrefix(key, placeholderPrefix)
	value := placeholders[name]
	if !hasPrefix || value == nil || c.passedOn { // perhaps the next handler has the placeholder, too
		return nil, false
	}
	if len(c.turns) > 0 {
		if result := value(c.turns); result != "" {
			return result, true
		}
	}
	return nil, true
}

func sum(value func(*usage.Record) int64) func([]usage.Record) any {
	return func(turns []usage.Record) any {
		var n int64
		for i := range turns {
			n += value(&turns[i])
		}
		return n
	}
}

// firstOutputMillis is from the arrival of the request to the first output of its first turn; nil: there was none.
func firstOutputMillis(turns []usage.Record) any {
	if first := turns[0].FirstOutput; first > 0 {
		return float64(first) / float64(time.Millisecond)
	}
	return nil
}
