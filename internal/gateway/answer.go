package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ignoredHeader names the parameters of a request that changed nothing.
const ignoredHeader = "X-Codex-Ignored-Params"

// maxIgnored is how many parameters the header names. Only the hosted tools of
// a Codex may be more.
const maxIgnored = 32

// ignoredParams is the value of the header. The names are the server's own words.
func ignoredParams(names []string) string {
	more := len(names) - maxIgnored
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxIgnored], ", "), more)
}

// answer is the client's side of a request. Its methods are never called by
// two goroutines at once.
type answer interface {
	// take takes the next outputs of a choice.
	take(choice int, outputs []turn.Output) error
	// failure is why the request failed, or nil.
	failure() error
	// nextWake is when wake wants to be called if nothing else happens.
	nextWake() time.Duration
	// wake does what is due when nothing has happened.
	wake() error
}

// ending is how the answer to a request ended.
type ending struct {
	failure error // why the request failed
	lost    error // why the client did not get the answer
	cut     bool  // the answer was begun and has no end
}

// answer runs the turns and gives the client what they say.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, req *request, choices []*choice) {
	header := w.Header()
	header.Set(modeHeader, string(req.options.OutputMode))
	header.Set(stopHeader, string(req.options.StopAfterTools))
	if len(req.plan.Ignored) > 0 {
		header.Set(ignoredHeader, ignoredParams(req.plan.Ignored))
	}
	send := g.whole
	if req.plan.Stream {
		send = g.stream
	}
	defer g.opts.Observer.AnswerBegan(req.plan.Stream)()
	end := send(w, r, req, choices)
	switch {
	case end.lost != nil:
		g.opts.Observer.RequestFailed(r, openai.ClientGone())
	case end.failure != nil:
		g.opts.Observer.RequestFailed(r, openai.FromFailure(end.failure))
	}
	for _, c := range choices {
		record := c.record(end.failure, end.lost)
		record.Route = req.route
		record.Time = time.Now()
		record.Duration = record.Time.Sub(req.arrived)
		if !c.first.IsZero() {
			record.FirstOutput = c.first.Sub(req.arrived)
		}
		record.Model = req.plan.Model
		record.Mode = req.options.OutputMode
		record.Stop = req.options.StopAfterTools
		record.Stream = req.plan.Stream
		g.ended(r, record)
	}
	if end.cut {
		// Returning would end the body as if it were whole, which a client that has
		// closed its sending side alone would see.
		panic(http.ErrAbortHandler)
	}
}

// errOver ends the turns of a request of which one choice has failed.
var errOver = errors.New("a choice has failed")

// run drives the turns of all choices side by side until the answer is whole
// or one has failed, which fails the request. The error says why the client
// did not get the answer.
func (g *Gateway) run(ctx context.Context, req *request, choices []*choice, to answer) error {
	var lock sync.Mutex
	return unlessOver(g.sideBySide(ctx, choices, func(ctx context.Context, c *choice) error {
		return g.drive(ctx, req.plan, c, &consumer{
			choice:  c,
			to:      to,
			lock:    &lock,
			refused: func(failure error) bool { return g.refused(c, failure) },
			explain: func(failure error) error { return c.explain(ctx, failure) },
			settle:  func(taken bool) { req.settler.settle(c, taken) },
		})
	}))
}

// explainTimeout bounds what is asked about a failure before it is told.
const explainTimeout = 2 * time.Second

// explain completes the failure of a turn by what the app-server can tell of it:
// when a spent plan resets.
func (c *choice) explain(ctx context.Context, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return c.thread.ExplainLimit(ctx, failure)
}

// unlessOver tells a client that has gone from a request that has failed, also
// with the server's exit.
func unlessOver(err error) error {
	if errors.Is(err, errOver) || errors.Is(err, turn.ErrShutdown) {
		return nil
	}
	return err
}

// consumer passes the outputs of one choice to the answer that all share.
type consumer struct {
	choice  *choice
	to      answer
	lock    *sync.Mutex
	refused func(failure error) bool // the turn is to be run once more
	explain func(failure error) error
	settle  func(taken bool) // the turn will not be run once more
}

// Consume passes outputs on, unless another choice has failed the request.
func (c *consumer) Consume(outputs []turn.Output) error {
	if last := &outputs[len(outputs)-1]; last.Kind == turn.OutputFailure {
		if len(outputs) == 1 && c.refused(last.Err) {
			return errStrict
		}
		last.Err = c.explain(last.Err) // it may take a moment; the others go on
	}
	c.settle(outputs[0].Kind != turn.OutputFailure)
	c.lock.Lock()
	defer c.lock.Unlock()
	c.choice.see(outputs) // also of a failed request: its tokens are spent
	if c.to.failure() != nil {
		return errOver
	}
	if err := c.to.take(c.choice.index, outputs); err != nil {
		return err
	}
	if c.to.failure() != nil {
		return errOver
	}
	return nil
}

// NextWake is when the answer wants to be woken.
func (c *consumer) NextWake() time.Duration {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.to.nextWake()
}

// Wake wakes the answer, unless another choice has failed the request: the
// failure may still have to become the status.
func (c *consumer) Wake() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.to.failure() != nil {
		return errOver
	}
	return c.to.wake()
}
