package ollama

import (
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body collects the outputs of a turn in one object. A client of [Stream] gets the same content
// from the same outputs.
type Body struct {
	meta Meta
	timings
	content, thinking strings.Builder
	calls             []call
	finish            turn.Output
	done              bool
	err               *apierror.Error
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	return &Body{meta: meta, timings: timings{arrived: meta.Arrived, started: time.Now()}}
}

// Add adds the next output. Outputs after the finish, or after an error, are ignored.
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

// Err returns an error if the outputs so far cannot be an answer.
func (b *Body) Err() *apierror.Error { return b.err }

// JSON returns the body. It is complete once the turn has ended without an error.
func (b *Body) JSON() []byte {
	now := time.Now()
	all := piece{b.content.String(), b.thinking.String(), b.calls}
	return b.meta.appendEnd(b.meta.appendStart(nil, &all, now), &b.finish, &b.timings, now)
}
