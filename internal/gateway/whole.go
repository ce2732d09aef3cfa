package gateway

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// whole answers with one body, after the turns.
func (g *Gateway) whole(w http.ResponseWriter, r *http.Request, req *request, choices []*choice) ending {
	b := &body{encoder: req.wire.Whole(), held: g.hold()}
	defer b.held.release()
	if err := g.run(r.Context(), req, choices, b); err != nil {
		g.lost(r, err)
		g.refuse(w, r, openai.ClientGone())
		return ending{lost: err}
	}
	if err := b.failure(); err != nil {
		g.refuse(w, r, req.wire.Refusal(err))
		return ending{failure: err}
	}
	tools := toolsOf(choices)
	header := w.Header()
	header.Set(countHeader, strconv.Itoa(tools.Calls))
	header.Set(truncatedHeader, strconv.FormatBool(tools.Truncated))
	return ending{lost: g.respond(w, r, http.StatusOK, b.encoder.JSON())}
}

// body is an answer in one piece.
type body struct {
	encoder bodyEncoder
	held    *held
}

// take folds the outputs.
func (b *body) take(choice int, outputs []turn.Output) error {
	for _, o := range outputs {
		b.encoder.Add(choice, b.held.add(o))
	}
	return nil
}

func (b *body) failure() error { return b.encoder.Failure() }

// nextWake is never: nothing is written before the end.
func (b *body) nextWake() time.Duration { return math.MaxInt64 }

func (b *body) wake() error { return nil }
