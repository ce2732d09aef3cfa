package caddymodule

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestTrace checks the attributes of the span of a request with two choices, one of which
// has failed.
func TestTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	ctx, span := tracer.Start(t.Context(), "request")
	usage := codexrpc.Usage{InputTokens: 10, OutputTokens: 5, CachedInputTokens: 3, ReasoningOutputTokens: 2, TotalTokens: 15}
	traceTurns(ctx, []gateway.Record{
		{Model: "fast" + strings.Repeat("!", 500), CodexModel: "gpt-5", Finish: turn.FinishToolCalls, Usage: usage},
		{Model: "fast", CodexModel: "gpt-5", Usage: usage},
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
		"gen_ai.request.model":                 attribute.StringValue("fast" + strings.Repeat("!", maxLogged-len("fast"))),
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
	turns := []gateway.Record{{Model: "gpt-5"}}
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
