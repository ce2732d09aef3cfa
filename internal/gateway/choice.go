package gateway

import (
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// choice is one of the answers to a request. It has a turn, and consumes the outputs of this turn.
type choice struct {
	index   int
	options *turn.Options      // of this choice
	turn    *conversation.Turn // nil: the model was not asked
	machine turn.Machine
	run     *runningRequest

	firstOutput time.Time         // when the first output came; zero: there was none
	finish      turn.FinishReason // empty: the turn has failed, or has not ended
	apiErr      *apierror.Error   // why the answer lacks this choice; nil: the answer has it

	// What is needed to charge the turn to its key.
	grant       *quota.Grant // counts the tokens for the key; nil: the key limits neither turns nor tokens
	outputChars int          // characters of the answer so far
	usedBefore  turn.End     // the usage of the request's turns before this one, see [shortening]
	priceBefore turn.Price   // their price
	modelAsked  bool         // the model was probably asked: missing counts are estimated even without an output
}

// Consume passes outputs to the responder, except a failure, which Turn.Run returns. After an error of the
// request, it passes nothing on, and returns this error.
func (c *choice) Consume(outputs []turn.Output) error {
	outputs, err := c.run.shorten(c, outputs)
	if err != nil || len(outputs) == 0 {
		return err
	}
	if c.firstOutput.IsZero() && outputs[0].Kind != turn.OutputFinish && outputs[0].Kind != turn.OutputFailure {
		c.firstOutput = time.Now()
	}
	c.run.ex.recordParts(c.index, outputs)
	chars := countCharacters(outputs)
	c.outputChars += chars
	c.run.req.statusEntry.Add(chars)
	last := len(outputs) - 1
	ended, failed := outputs[last].Kind == turn.OutputFinish, outputs[last].Kind == turn.OutputFailure
	if ended {
		c.finish = outputs[last].End.Finish
		c.settle(true)
	}
	run := c.run
	run.mu.Lock()
	defer run.mu.Unlock()
	if ended || failed {
		run.responder.count(c) // before write, which may end the stream with the counts
	}
	if failed {
		outputs = outputs[:last]
	}
	if run.err == nil && len(outputs) > 0 {
		run.err = run.responder.write(c.index, outputs)
	}
	return run.err
}

// Restarted tells the responder that the turn was started again.
func (c *choice) Restarted() {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.responder.restart()
}

// Leave is for the outputs that were withheld when the client left. The responder may store these outputs.
func (c *choice) Leave(outputs []turn.Output) {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.responder.writeUnread(c.index, outputs)
}

// NextWake returns the time until Wake has to be called.
func (c *choice) NextWake() time.Duration {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return c.run.responder.nextWake()
}

// Wake lets the responder write what is due, such as the header. If the request has failed, Wake
// writes nothing, so that the failure can still become the HTTP status.
func (c *choice) Wake() error {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.run.err == nil {
		c.run.err = c.run.responder.wake(c.index)
	}
	return c.run.err
}

// Committed records that the turn will not be started again. The call for the last choice drops what
// was needed to start turns, and releases the memory of the body that nothing else uses.
func (c *choice) Committed() {
	run := c.run
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.restartable--; run.restartable > 0 {
		return
	}
	plan := run.req.plan
	plan.Thread, plan.History, plan.Turn = codexrpc.ThreadStartParams{}, nil, codexrpc.TurnStartParams{}
	if run.req.shorter == nil { // otherwise a further turn may need all of it
		run.req.body.Shrink(max(run.req.kept.forget(), int64(len(run.ex.original))))
	}
}

func countCharacters(outputs []turn.Output) (sum int) {
	for i := range outputs {
		if outputs[i].Kind != turn.OutputPicture { // a picture is no text
			sum += utf8.RuneCountInString(outputs[i].Text)
		}
	}
	return sum
}
