package ollama

import (
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
	meta Meta
	timings

	// The content of the object, if there are no lines.
	content, thinking strings.Builder
	calls             []call
	finish            turn.Output
}

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder { return &Encoder{meta: meta} }

// Begin implements [api.Encoder].
func (e *Encoder) Begin(emit api.Emit) {
	e.Events.Begin(emit)
	e.timings = timings{arrived: e.meta.Arrived, started: time.Now()}
}

// Write implements [api.Encoder]. It fails if the arguments of a call are not a JSON object.
func (e *Encoder) Write(_ int, out turn.Output) error {
	if e.Over() || e.Err() != nil {
		return e.Err()
	}
	if out.Kind == turn.OutputFinish {
		e.writeEnd(&out)
		return e.Err()
	}
	p, apiErr := e.meta.newPiece(&out)
	if apiErr != nil {
		return apiErr
	}
	if p.isEmpty() {
		return nil
	}
	e.recordFirst()
	if e.Streams() {
		e.Send("", append(e.meta.appendStart(e.Take(), &p, time.Now()), `,"done":false}`...))
		return e.Err()
	}
	e.content.WriteString(p.content)
	e.thinking.WriteString(p.thinking)
	e.calls = append(e.calls, p.calls...)
	return nil
}

// writeEnd ends the answer. out is the last output.
func (e *Encoder) writeEnd(out *turn.Output) {
	if e.End(); e.Streams() {
		now := time.Now()
		e.Send("", e.meta.appendEnd(e.meta.appendStart(e.Take(), new(piece), now), out, &e.timings, now))
		return
	}
	e.finish = *out
}

// Form implements [api.Answer]. The keepalive is a line with an empty text, which changes nothing.
func (e *Encoder) Form() api.Form {
	line := append(e.meta.appendStart(nil, new(piece), e.meta.Arrived), `,"done":false}`...)
	return api.Form{Line: line, Warmup: e.meta.loadReason != ""}
}

// Fail implements [api.Encoder].
func (e *Encoder) Fail(apiErr *apierror.Error) error { return e.Last("", appendError(nil, apiErr)) }

// JSON implements [api.Encoder].
func (e *Encoder) JSON() []byte {
	now := time.Now()
	all := piece{e.content.String(), e.thinking.String(), e.calls}
	return e.meta.appendEnd(e.meta.appendStart(nil, &all, now), &e.finish, &e.timings, now)
}
