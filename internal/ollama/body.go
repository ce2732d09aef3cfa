package ollama

import (
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body collects the outputs of a turn in one object. From the same outputs, [Stream] makes lines
// with the same content.
type Body struct {
	meta Meta
	timings
	content, thinking strings.Builder
	calls             []call
	finish            turn.Output // the last output, if done
	done              bool
	err               *apierror.Error // see Err
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	return &Body{meta: meta, timings: timings{arrived: meta.Arrived, started: time.Now()}}
}

// Add adds the next output. It ignores outputs after turn.OutputFinish, the last output of a turn,
// and outputs after an error (see [Body.Err]).
func (b *Body) Add(_ int, out turn.Output) {
	if b.done || b.err != nil {
		return
	}
	if out.Kind == turn.OutputFinish {
		b.done, b.finish = true, out
		return
	}
	p, apiErr := b.meta.newPiece(&out)
	if b.err = apiErr; apiErr != nil || p.isEmpty() {
		return
	}
	b.recordFirst()
	b.content.WriteString(p.content)
	b.thinking.WriteString(p.thinking)
	b.calls = append(b.calls, p.calls...)
}

// Err returns the error for a call whose arguments are not a JSON object, or nil if there was no
// such call.
func (b *Body) Err() *apierror.Error { return b.err }

// JSON returns the body. The body is complete when the turn has ended without an error.
func (b *Body) JSON() []byte {
	now := time.Now()
	all := piece{b.content.String(), b.thinking.String(), b.calls}
	return b.meta.appendEnd(b.meta.appendStart(nil, &all, now), &b.finish, &b.timings, now)
}
