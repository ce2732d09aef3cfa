package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// responder writes the answer to a request. Two goroutines never call its methods at the same time.
type responder interface {
	// write writes the next outputs of a choice. None of them is a failure. If write returns an
	// *apierror.Error, the request fails.
	write(choice int, outputs []turn.Output) error
	// writeUnread is called with the last outputs of a choice after the client has gone. An answer
	// that is stored needs them.
	writeUnread(choice int, outputs []turn.Output)
	// restart is called when a turn that had no output yet was started again.
	restart()
	// nextWake returns the time until wake has to be called.
	nextWake() time.Duration
	// wake writes what is due: a header, or a keepalive.
	wake() error
	// finish ends the answer when the turns have ended. err is nil, or why the request failed, or
	// why the client did not get the answer.
	finish(err error) requestOutcome
	// close releases the memory of the answer.
	close()
}

// respond runs the turns of a request and passes their outputs to the responder.
func (g *Gateway) respond(ctx context.Context, run *runningRequest, responder responder) requestOutcome {
	ex, req := run.ex, run.req
	req.statusEntry.Enter(status.Running)
	ex.setHeaders(req)
	g.setLimitHeaders(run)
	defer responder.close()
	run.group.setUp(run.choices, req, responder)
	defer g.opts.Observer.AnswerBegan(req.plan.Stream)()
	err := run.forEachChoice(ctx, (*runningRequest).runChoice)
	settleAll(run.choices, err)
	g.setLimitHeaders(run) // again, with the use after the turns; it has no effect on an answer that has begun
	if run.group.tally.budgetSpent {
		ex.w.Header().Set(budgetHeader, "spent")
	}
	if what := req.answer.notStored(); what != "" {
		ex.w.Header().Set(notStoredHeader, what)
	}
	outcome := responder.finish(err)
	for _, c := range run.choices {
		outcome.turns = append(outcome.turns, newRecord(ex, req, c, outcome.apiErr))
		if outcome.apiErr == nil && outcome.deliveryErr == nil {
			c.session.Keep(c.machine.ThreadState(), c.end.usage)
		}
	}
	if req.limits != nil {
		outcome.turns[0].Limits = req.limits.States()
	}
	return outcome
}

// budgetHeader marks an answer that the limits of the key have cut short. In a stream that has
// already begun, a comment at the end replaces the header.
const budgetHeader = "X-Codex-Key-Budget"

// notStoredHeader names what could not be stored: "response", "conversation" or both. A stream has
// sent its headers before.
const notStoredHeader = "X-Codex-Not-Stored"

// setHeaders sets the headers that say how a request is served.
func (ex *exchange) setHeaders(req *request) {
	header, values := ex.w.Header(), &ex.prealloc.headers
	values[0], values[1] = string(req.options.OutputMode), string(req.options.StopAfterTools)
	header[modeHeader], header[stopHeader] = values[0:1:1], values[1:2:2]
	if len(req.plan.Ignored) > 0 {
		header.Set(ignoredHeader, ignoredParams(req.plan.Ignored))
	}
}

// newResponder returns a responder for an answer. place is where the first turn runs.
func (g *Gateway) newResponder(ex *exchange, req *request, place *conversation.Place, tally *tally) responder {
	if req.plan.Stream {
		return g.newStreamResponder(ex, req.answer, place, tally)
	}
	return &bufferedResponder{g: g, w: ex.w, r: ex.r, tally: tally, encoder: req.answer.body(place), claim: g.newAnswerClaim(ex.user)}
}

// warmUp answers a request that wants no output. The answer is empty.
func warmUp(responder responder) requestOutcome {
	defer responder.close()
	return responder.finish(responder.write(0, []turn.Output{{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}}))
}

// ignoredHeader is the header that lists the parameters of a request that had no effect.
const ignoredHeader = "X-Codex-Ignored-Params"

// maxIgnored is how many parameters the header lists. Only requests from Codex clients can have
// more, because of their hosted tools.
const maxIgnored = 32

// ignoredParams returns the value of ignoredHeader. The names come from this server, never from the
// client.
func ignoredParams(names []string) string {
	more := len(names) - maxIgnored
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxIgnored], ", "), more)
}

// bufferedResponder writes an answer in one body.
type bufferedResponder struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	tally   *tally // of the choices
	encoder bodyEncoder
	claim   *answerClaim
}

// write adds the outputs to the body.
func (b *bufferedResponder) write(choice int, outputs []turn.Output) error {
	for i := range outputs {
		if err := b.claim.add(&outputs[i]); err != nil {
			return err
		}
		if err := b.encoder.Write(choice, outputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeUnread does nothing: an answer in one body is not stored if its client has gone.
func (b *bufferedResponder) writeUnread(int, []turn.Output) {}

func (b *bufferedResponder) restart() {}

// nextWake never asks for a call of wake: nothing is written before the end.
func (b *bufferedResponder) nextWake() time.Duration { return math.MaxInt64 }

func (b *bufferedResponder) wake() error { return nil }

// finish writes the body, or the error.
func (b *bufferedResponder) finish(err error) requestOutcome {
	if apiErr, failed := errors.AsType[*apierror.Error](err); failed {
		return b.g.refuse(b.w, b.r, apiErr)
	}
	if err != nil {
		return b.g.refuseUndelivered(b.w, b.r, err)
	}
	body, apiErr := keepAnswer(b.claim.claim, b.encoder.JSON())
	if apiErr != nil {
		return b.g.refuse(b.w, b.r, apiErr)
	}
	header, tools := b.w.Header(), &b.tally.tools
	header.Set(countHeader, strconv.Itoa(tools.Calls))
	header.Set(truncatedHeader, strconv.FormatBool(tools.Truncated))
	if err := writeJSON(b.w, http.StatusOK, body); err != nil {
		return requestOutcome{apiErr: apierror.ClientGone(), deliveryErr: err}
	}
	return requestOutcome{}
}

func (b *bufferedResponder) close() { b.claim.release() }
