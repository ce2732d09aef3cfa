package gateway

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// responder writes the answer to a request. Its methods are never called by two
// goroutines at once.
type responder interface {
	// write writes the next outputs of a choice, none of them a failure. An
	// *apierror.Error fails the request.
	write(choice int, outputs []turn.Output) error
	// leave takes the last outputs of a choice whose client has gone, for an answer that is stored.
	leave(choice int, outputs []turn.Output)
	// nextWake returns when wake has to be called if nothing else happens.
	nextWake() time.Duration
	// wake does what is due: a header, a keepalive.
	wake() error
	// finish ends the answer once the turns have ended. err is why they failed, or nil.
	finish(err error) requestOutcome
	// close releases the memory of the answer.
	close()
}

// respond runs the turns of a request and gives the client what they say.
func (g *Gateway) respond(x *exchange) requestOutcome {
	req := &x.req
	x.live.Enter(status.Running)
	x.setHeaders()
	g.showLimits(x)
	to := g.newResponder(x)
	defer to.close()
	x.beginTurns(to)
	defer g.opts.Observer.AnswerBegan(req.stream)()
	err := g.sideBySide(x, (*Gateway).runChoice)
	x.settleAll(err)
	g.showLimits(x) // for an answer that has not begun yet
	if x.budgetSpent() {
		x.w.Header().Set(budgetHeader, "spent")
	}
	outcome := to.finish(err)
	outcome.turns = x.record[:0]
	for _, c := range x.choices {
		outcome.turns = append(outcome.turns, newRecord(x, c, outcome.apiErr))
		if outcome.apiErr == nil && outcome.lost == nil {
			c.session.Keep(c.machine.Rest(), c.end.usage)
		}
	}
	return outcome
}

// beginTurns makes the group of the turns that were started. Once none of them will be started
// again, the memory of the body is free unless the form keeps as much.
func (x *exchange) beginTurns(to responder) {
	plan := x.req.plan
	x.req.plan = nil
	x.group.begin(x.choices, plan, to, func() {
		if x.req.form.forget() {
			x.body.Release()
		}
	})
}

// budgetHeader says that the limits of the key have cut the answer. A stream that has begun
// says so in a comment.
const budgetHeader = "X-Codex-Key-Budget"

// setHeaders sets the headers that say how a request is served.
func (x *exchange) setHeaders() {
	req, header, values := &x.req, x.w.Header(), &x.headers
	values[0], values[1] = string(req.options.OutputMode), string(req.options.StopAfterTools)
	header[modeHeader], header[stopHeader] = values[0:1:1], values[1:2:2]
	if len(req.plan.Ignored) > 0 {
		header.Set(ignoredHeader, ignoredParams(req.plan.Ignored))
	}
}

func (g *Gateway) newResponder(x *exchange) responder {
	if x.log != nil {
		return x.log
	}
	if x.req.stream {
		return g.newStreamResponder(x)
	}
	return &bufferedResponder{g: g, x: x, encoder: x.req.form.body(), held: g.hold(x.user)}
}

// ignoredHeader names the parameters of a request that changed nothing.
const ignoredHeader = "X-Codex-Ignored-Params"

// maxIgnored is how many parameters the header names. Only the hosted tools of
// a Codex may be more.
const maxIgnored = 32

// ignoredParams returns the value of the header. The names are the server's own words.
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
	x       *exchange
	encoder bodyEncoder
	held    *held
}

// write adds the outputs to the body.
func (b *bufferedResponder) write(choice int, outputs []turn.Output) error {
	for i := range outputs {
		if err := b.held.add(&outputs[i]); err != nil {
			return err
		}
		b.encoder.Add(choice, outputs[i])
	}
	return nil
}

// leave does nothing: an answer that its client has not got is not stored.
func (b *bufferedResponder) leave(int, []turn.Output) {}

// nextWake is never: nothing is written before the end.
func (b *bufferedResponder) nextWake() time.Duration { return math.MaxInt64 }

func (b *bufferedResponder) wake() error { return nil }

// finish writes the body, or the error.
func (b *bufferedResponder) finish(err error) requestOutcome {
	if apiErr, failed := errors.AsType[*apierror.Error](err); failed {
		return b.g.refuse(b.x.w, b.x.r, apiErr)
	}
	if err != nil {
		return b.g.refuseLost(b.x, err)
	}
	tools := toolsOf(b.x.choices)
	header := b.x.w.Header()
	header.Set(countHeader, strconv.Itoa(tools.Calls))
	header.Set(truncatedHeader, strconv.FormatBool(tools.Truncated))
	if err := writeJSON(b.x.w, http.StatusOK, b.encoder.JSON()); err != nil {
		return requestOutcome{apiErr: apierror.ClientGone(), lost: err}
	}
	return requestOutcome{}
}

func (b *bufferedResponder) close() { b.held.release() }
