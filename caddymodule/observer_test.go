package caddymodule

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestTrace checks the span of a request with two choices, one of which has failed.
func TestTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	ctx, span := tracer.Start(t.Context(), "request")
	tokens := codexrpc.Usage{InputTokens: 10, OutputTokens: 5, CachedInputTokens: 3, ReasoningOutputTokens: 2, TotalTokens: 15}
	traceTurns(ctx, []usage.Record{
		{Model: "fast" + strings.Repeat("!", 500), CodexModel: "gpt-5", Finish: turn.FinishToolCalls, Usage: tokens},
		{Model: "fast", CodexModel: "gpt-5", Usage: tokens},
	})
	traceFailure(ctx, &apierror.Error{Status: 502, Code: "of the provider's"})
	span.End()
	ended := spans.Ended()[0]
	got := make(map[attribute.Key]attribute.Value)
	for _, a := range ended.Attributes() {
		got[a.Key] = a.Value
	}
	for key, want := range map[attribute.Key]attribute.Value{
		"gen_ai.operation.name":                attribute.StringValue("chat"),
		"gen_ai.provider.name":                 attribute.StringValue("openai"),
		"gen_ai.request.model":                 attribute.StringValue("fast" + strings.Repeat("!", 200-len("fast"))),
		"gen_ai.request.choice.count":          attribute.IntValue(2),
		"gen_ai.response.model":                attribute.StringValue("gpt-5"),
		"gen_ai.response.finish_reasons":       attribute.StringSliceValue([]string{"tool_calls"}),
		"gen_ai.usage.input_tokens":            attribute.Int64Value(20),
		"gen_ai.usage.output_tokens":           attribute.Int64Value(10),
		"gen_ai.usage.cache_read.input_tokens": attribute.Int64Value(6),
		"gen_ai.usage.reasoning.output_tokens": attribute.Int64Value(4),
		"error.type":                           attribute.StringValue("other"),
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key].String(), want.String())
		}
		delete(got, key)
	}
	if len(got) > 0 || ended.Status().Code != codes.Error {
		t.Errorf("also %v, status %v", got, ended.Status())
	}
}

// TestTraceOfAWrongRequest checks that a client's error does not fail the span.
func TestTraceOfAWrongRequest(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("").Start(t.Context(), "request")
	traceTurns(ctx, nil)
	traceFailure(ctx, apierror.ModelNotFound("x"))
	span.End()
	ended := spans.Ended()[0]
	if want := attribute.String("error.type", "model_not_found"); ended.Status().Code != codes.Unset || !slices.Contains(ended.Attributes(), want) || len(ended.Attributes()) != 1 {
		t.Errorf("%v, %v", ended.Attributes(), ended.Status())
	}
}

// TestUntraced checks that a request that is not traced costs no memory.
func TestUntraced(t *testing.T) {
	turns := []usage.Record{{Model: "gpt-5"}}
	failure := apierror.ModelNotFound("x")
	if n := leastAllocations(func() {
		traceTurns(context.Background(), turns)
		traceFailure(context.Background(), failure)
	}); n > 0 {
		t.Errorf("%f allocations", n)
	}
}

// leastAllocations returns how many objects f allocates. What other tests have left running
// allocates at times as well, so that of several counts the least one is right.
func leastAllocations(f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for range 9 {
		least = min(least, testing.AllocsPerRun(100, f))
	}
	return least
}

func TestTurnLog(t *testing.T) {
	core, logs := zaptest.New(zap.InfoLevel)
	log := zap.New(core)
	logTurn(log, &usage.Record{
		Duration: 1500 * time.Millisecond, FirstOutput: 250 * time.Millisecond, Route: "chat",
		RequestID: "req-1", User: "alice", Model: strings.Repeat("ü", 500), Mode: turn.ModeJSON, Stream: true, Status: 502, Code: apierror.Code("codex_error" + strings.Repeat("!", 500)),
		Usage: codexrpc.Usage{InputTokens: 10, CachedInputTokens: 3, CacheWriteInputTokens: 4, OutputTokens: 5, ReasoningOutputTokens: 2},
		Tools: turn.Report{Calls: 2, Truncated: true, Duplicates: 1, Unwritable: 3, Started: 9, Flushed: 4, TailBytes: 17, TextDiffers: true, Unoffered: 6,
			Aborted: map[usetool.AbortReason]int{usetool.AbortNested: 2, aggregator.AbortUndeclared: 3}},
		Stop: turn.StopFirst, Thread: "resumed", Estimated: true, Price: turn.Price(12_500_000), Overrides: []string{"stop_after_tools=first"},
	})
	logTurn(log, &usage.Record{Status: 200})
	if logs.Len() != 2 {
		t.Fatalf("%d lines for two turns", logs.Len())
	}
	line := logs.All()[0].ContextMap()
	for key, want := range map[string]any{
		"request_id": "req-1", "user": "alice", "route": "chat", "choice": int64(0), "model": strings.Repeat("ü", 200/2),
		"output_mode": "openai-json", "stream": true, "status": int64(502), "code": "codex_error" + strings.Repeat("!", 200-len("codex_error")), "duration": 1.5, "first_output": .25,
		"input_tokens": int64(10), "cached_input_tokens": int64(3), "cache_write_input_tokens": int64(4), "output_tokens": int64(5), "reasoning_output_tokens": int64(2),
		"tool_calls": int64(2), "tool_calls_truncated": true, "thread": "resumed", "text_differs": true, "tool_calls_unoffered": int64(6),
		"usage_estimated": true, "price": .0125, "stop_after_tools": "first", "tool_calls_duplicate": int64(1), "tool_calls_unwritable": int64(3), "tool_blocks_started": int64(9),
		"tool_blocks_flushed": int64(4), "tool_blocks_aborted": int64(5), "tool_tail_bytes": int64(17), "tool_overrides": []any{"stop_after_tools=first"},
	} {
		if !reflect.DeepEqual(line[key], want) {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
		delete(line, key)
	}
	if len(line) > 0 {
		t.Errorf("more than that: %v", line)
	}
	bare := logs.All()[1].ContextMap()
	if _, ok := bare["code"]; ok || bare["first_output"] != nil || bare["price"] != nil || bare["tool_overrides"] != nil || bare["text_differs"] != nil {
		t.Errorf("%v", bare)
	}
}

// TestTurnLogAllocations checks that the log line of a turn takes no memory for its fields.
func TestTurnLogAllocations(t *testing.T) {
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel))
	r := usage.Record{RequestID: "req-1", User: "alice", Model: "gpt-5", Status: 200, FirstOutput: time.Second}
	if n := leastAllocations(func() { logTurn(log, &r) }); n > 2 {
		t.Errorf("%v allocations, want those of zap alone", n)
	}
}

// TestPlaceholders checks what other handlers read of a request: before the end of its turns, with
// several choices, and where there is nothing to say.
func TestPlaceholders(t *testing.T) {
	full := usage.Record{
		Model: "fast" + strings.Repeat("!", 500), Route: "messages", Thread: "continued", Key: "laptop",
		Finish: turn.FinishToolCalls, FirstOutput: 1500 * time.Microsecond,
		Usage: codexrpc.Usage{InputTokens: 100, CachedInputTokens: 20, OutputTokens: 7}, Tools: turn.Report{Calls: 2},
	}
	second := full
	second.Thread, second.Finish, second.FirstOutput = "new", turn.FinishStop, time.Second
	nothing := map[string]any{
		"model": nil, "api": nil, "thread": nil, "finish_reason": nil, "key": nil, "login": nil, "ttft_ms": nil,
		"input_tokens": nil, "cached_tokens": nil, "output_tokens": nil, "tool_calls": nil,
	}
	of := func(more map[string]any) map[string]any {
		all := maps.Clone(nothing)
		maps.Copy(all, more)
		return all
	}
	for name, test := range map[string]struct {
		turns []usage.Record
		want  map[string]any
	}{
		"before the end": {nil, nothing},
		"a failed turn": {[]usage.Record{{Model: "gpt-5", Route: "chat"}}, of(map[string]any{
			"model": "gpt-5", "api": "chat", "input_tokens": int64(0), "cached_tokens": int64(0), "output_tokens": int64(0), "tool_calls": int64(0),
		})},
		"two choices": {[]usage.Record{full, second}, of(map[string]any{
			"model": "fast" + strings.Repeat("!", 200-len("fast")), "api": "messages", "thread": "continued", "key": "laptop",
			"finish_reason": "tool_calls", "ttft_ms": 1.5,
			"input_tokens": int64(200), "cached_tokens": int64(40), "output_tokens": int64(14), "tool_calls": int64(4),
		})},
	} {
		r, repl := prepared(http.MethodPost, "/v1/messages")
		route, _ := new(Handler).routeOf("/v1/messages")
		route.prepare(httptest.NewRecorder(), r, new(requestContext))
		if len(test.turns) > 0 {
			observer{turnLogger: zap.NewNop()}.TurnsEnded(r.Context(), test.turns)
		}
		for key, want := range test.want {
			if got, known := repl.Get("http.codex." + key); got != want || !known {
				t.Errorf("%s: %s is %v, known: %t, want %v", name, key, got, known, want)
			}
		}
		if len(test.want) != len(placeholders) {
			t.Errorf("%s: %d placeholders, want %d", name, len(test.want), len(placeholders))
		}
		if value, known := repl.Get("http.codex.nothing"); known {
			t.Errorf("%s: a placeholder that does not exist is %v", name, value)
		}
	}
}

// TestPlaceholdersOfAnother checks that the turns of a background response, whose context is not
// that of the request, are not those of the request that began it.
func TestPlaceholdersOfAnother(t *testing.T) {
	r, repl := prepared(http.MethodPost, "/v1/responses")
	route, _ := new(Handler).routeOf("/v1/responses")
	route.prepare(httptest.NewRecorder(), r, new(requestContext))
	observer{turnLogger: zap.NewNop()}.TurnsEnded(context.Background(), []usage.Record{{Model: "gpt-5"}})
	if model, _ := repl.Get("http.codex.model"); model != nil {
		t.Errorf("the model is %v", model)
	}
}
