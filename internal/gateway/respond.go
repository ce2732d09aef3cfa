package gateway

import (
	"context"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// respond runs the turns, which have been started, and writes the answer, while they run or afterwards.
func (g *Gateway) respond(ctx context.Context, run *runningRequest, responder *responder) requestOutcome {
	ex, req := run.ex, run.req
	req.statusEntry.Enter(status.Running)
	ex.recording.Note(0, string(status.Running), nil)
	ex.setHeaders(req)
	defer responder.close()
	run.responder = responder
	defer g.opts.Observer.AnswerBegan(req.plan.Stream)()
	err := run.forEachChoice(ctx, (*runningRequest).runChoice)
	settleAll(run.choices, err)
	if !responder.opened {
		ex.setLimitHeaders(run.choices[0])
	}
	if responder.budgetSpent {
		ex.w.Header().Set(budgetHeader, "spent")
	}
	if what := req.kept.notStored(); what != "" {
		ex.w.Header().Set(notStoredHeader, what)
	}
	outcome := responder.finish(err)
	delivered := outcome.apiErr == nil && outcome.deliveryErr == nil
	for _, c := range run.choices {
		outcome.turns = append(outcome.turns, newRecord(ex, req, c, outcome.apiErr))
		c.turn.Close(delivered)
	}
	if req.limits != nil { // only the first record has the limits: they count for the whole request
		outcome.turns[0].Limits = req.limits.States()
	}
	return outcome
}

// budgetHeader marks a body that the limits of the key have cut short. A stream has a comment instead.
const budgetHeader = "X-Codex-Key-Budget"

// notStoredHeader names what could not be stored: "response", "conversation" or both. Streams lack it.
const notStoredHeader = "X-Codex-Not-Stored"

// setHeaders sets the headers that say how a request is served. It sets two headers without an allocation.
func (ex *exchange) setHeaders(req *request) {
	header, values := ex.w.Header(), &ex.prealloc.headers
	values[0], values[1] = string(req.options.OutputMode), string(req.options.StopAfterTools)
	header[modeHeader], header[stopHeader] = values[0:1:1], values[1:2:2]
	if req.shorter != nil && req.shorter.begun {
		header.Set(shortenedHeader, "true")
	}
	if len(req.plan.Ignored) > 0 {
		header.Set(ignoredHeader, ignoredParams(req.plan.Ignored))
	}
}

// ignoredHeader is the header that lists the parameters of a request that had no effect.
const ignoredHeader = "X-Codex-Ignored-Params"

// maxIgnored is how many parameters ignoredHeader lists. Only Codex, as a client, sends more.
const maxIgnored = 32

// ignoredParams returns the value of ignoredHeader. The names are this server's: no client can choose them.
func ignoredParams(names []string) string {
	more := len(names) - maxIgnored
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxIgnored], ", "), more)
}
