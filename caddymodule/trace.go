package caddymodule

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// The attributes of spans, by OpenTelemetry's semantic conventions for generative AI.
const (
	attrOperation = attribute.Key("gen_ai.operation.name")
	attrProvider  = attribute.Key("gen_ai.provider.name")
	attrModel     = attribute.Key("gen_ai.request.model")
	attrChoices   = attribute.Key("gen_ai.request.choice.count")
	attrCodex     = attribute.Key("gen_ai.response.model")
	attrFinish    = attribute.Key("gen_ai.response.finish_reasons")
	attrInput     = attribute.Key("gen_ai.usage.input_tokens")
	attrOutput    = attribute.Key("gen_ai.usage.output_tokens")
	attrCached    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrReasoning = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	attrError     = attribute.Key("error.type")
)

// recording returns the span that Caddy's tracing has begun for a request, and false if
// the request is not traced.
func recording(ctx context.Context) (trace.Span, bool) {
	span := trace.SpanFromContext(ctx)
	return span, span.IsRecording()
}

// traceTurns describes the turns of a request in its span. Nothing of what was said is in
// it. The span of a background response has ended before.
func traceTurns(ctx context.Context, turns []gateway.Record) {
	span, ok := recording(ctx)
	if !ok || len(turns) == 0 {
		return
	}
	var input, output, cached, reasoning int64
	var finish []string
	for _, r := range turns {
		input += r.Usage.InputTokens
		output += r.Usage.OutputTokens
		cached += r.Usage.CachedInputTokens
		reasoning += r.Usage.ReasoningOutputTokens
		if r.Finish != "" {
			finish = append(finish, string(r.Finish))
		}
	}
	first := turns[0]
	span.SetAttributes(
		attrOperation.String(operation), attrProvider.String(provider),
		attrModel.String(logged(first.Model)), attrCodex.String(logged(first.CodexModel)),
		attrFinish.StringSlice(finish),
		attrInput.Int64(input), attrOutput.Int64(output), attrCached.Int64(cached), attrReasoning.Int64(reasoning),
	)
	if len(turns) > 1 {
		span.SetAttributes(attrChoices.Int(len(turns)))
	}
}

// traceFailure names the error of a request in its span. That of the server also fails the
// span, which the status of a stream that has begun would not.
func traceFailure(ctx context.Context, e *apierror.Error) {
	span, ok := recording(ctx)
	if !ok {
		return
	}
	span.SetAttributes(attrError.String(e.Code.Label()))
	if e.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, e.Code.Label())
	}
}
