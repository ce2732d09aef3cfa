package gateway

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// whole answers with one body, after the turn.
func (g *Gateway) whole(w http.ResponseWriter, r *http.Request, c *chat, machine *turn.Machine) Record {
	body := &wholeBody{body: openai.NewChatBody(c.meta)}
	if err := turn.Drive(r.Context(), c.thread, machine, body, g.opts.IdleTimeout); err != nil {
		g.lost(r, err)
		return body.record(err)
	}
	if err := body.body.Failure(); err != nil {
		g.refuse(w, r, openai.FromFailure(err))
		return body.record(nil)
	}
	report := machine.Report()
	header := w.Header()
	header.Set(countHeader, strconv.Itoa(report.Calls))
	header.Set(truncatedHeader, strconv.FormatBool(report.Truncated))
	return body.record(g.respond(w, r, http.StatusOK, body.body.JSON()))
}

// wholeBody lets a body consume a turn.
type wholeBody struct {
	outcome
	body *openai.ChatBody
}

// Consume folds the outputs.
func (b *wholeBody) Consume(outputs []turn.Output) error {
	b.see(outputs)
	for _, o := range outputs {
		b.body.Add(o)
	}
	return nil
}

// NextWake is never: nothing is written before the end.
func (b *wholeBody) NextWake() time.Duration { return math.MaxInt64 }

// Wake does nothing.
func (b *wholeBody) Wake() error { return nil }
