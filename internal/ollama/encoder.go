package ollama

import (
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Encoder encodes the outputs of a turn as lines, or as one object with the same content. Each line
// is an object with a piece of text, a piece of reasoning or a call. The last object has the usage
// and "done": true. If the turn fails, an object with only the error ends the stream.
type Encoder struct {
	api.Events
	meta       Meta
	started    time.Time // when the turn has started
	firstPiece time.Time // when the first piece of the turn came; zero: none has come

	// What has come so far, for an answer in one object.
	content, thinking strings.Builder
	calls             []call
	finish            turn.Output
}

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder { return &Encoder{meta: meta} }

// Begin implements [api.Encoder].
func (e *Encoder) Begin(emit api.Emit) {
	e.Events.Begin(emit)
	e.started = time.Now()
}

// Write implements [api.Encoder]. It fails if the arguments of a call are not a JSON object.
func (e *Encoder) Write(_ int, out turn.Output) error {
	if e.Over() || e.Err() != nil {
		return e.Err()
	}
	if out.Kind == turn.OutputFinish {
		if e.End(); e.Streams() {
			e.Send("", e.appendEnd(e.Take(), new(piece), &out))
		}
		e.finish = out
		return e.Err()
	}
	p, apiErr := e.meta.newPiece(&out)
	if apiErr != nil {
		return apiErr
	}
	if p.content == "" && p.thinking == "" && p.calls == nil {
		return nil
	}
	if e.firstPiece.IsZero() {
		e.firstPiece = time.Now()
	}
	if e.Streams() {
		e.Send("", append(e.meta.appendStart(e.Take(), &p, time.Now()), `,"done":false}`...))
		return e.Err()
	}
	e.content.WriteString(p.content)
	e.thinking.WriteString(p.thinking)
	e.calls = append(e.calls, p.calls...)
	return nil
}

// Form implements [api.Answer]. The keepalive is a line with an empty text, which changes nothing.
func (e *Encoder) Form() api.Form {
	line := append(e.meta.appendStart(nil, new(piece), e.meta.Arrived), `,"done":false}`...)
	return api.Form{Line: line, Warmup: e.meta.loadReason != ""}
}

// Fail implements [api.Encoder].
func (e *Encoder) Fail(apiErr *apierror.Error) error { return e.Last("", errorJSON(apiErr)) }

// JSON implements [api.Encoder].
func (e *Encoder) JSON() []byte {
	return e.appendEnd(nil, &piece{e.content.String(), e.thinking.String(), e.calls}, &e.finish)
}

// appendEnd appends the last object of the answer, with the content of p. out is the turn's last output.
func (e *Encoder) appendEnd(dst []byte, p *piece, out *turn.Output) []byte {
	now := time.Now()
	dst = append(e.meta.appendStart(dst, p, now), `,"done":true,"done_reason":"`...)
	if e.meta.loadReason != "" {
		return append(append(dst, e.meta.loadReason...), `"}`...)
	}
	reason := out.End.Finish
	if reason == turn.FinishToolCalls { // Ollama has no such reason
		reason = turn.FinishStop
	}
	first := e.firstPiece
	if first.IsZero() {
		first = now
	}
	input := out.End.Usage.InputTokens
	if out.End.Estimated && input == 0 {
		input = e.meta.InputTokens
	}
	dst = append(append(dst, reason...), '"')
	for _, member := range []struct {
		name  string
		value int64
	}{
		{"total_duration", nanoseconds(e.meta.Arrived, now)},
		{"load_duration", nanoseconds(e.meta.Arrived, e.started)},
		{"prompt_eval_count", input},
		{"prompt_eval_duration", nanoseconds(e.started, first)},
		{"eval_count", out.End.Usage.OutputTokens},
		{"eval_duration", nanoseconds(first, now)},
	} {
		dst = append(append(append(dst, `,"`...), member.name...), `":`...)
		dst = strconv.AppendInt(dst, member.value, 10)
	}
	return append(dst, '}')
}

// nanoseconds returns the nanoseconds between two times, but at least 1, since clients divide by them.
func nanoseconds(from, to time.Time) int64 { return max(1, int64(to.Sub(from))) }
