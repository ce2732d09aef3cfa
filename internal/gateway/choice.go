package gateway

import (
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// choice is one of the answers to a request. It has its own turn, and consumes that turn's outputs.
type choice struct {
	index       int
	options     *turn.Options      // of this choice
	turn        *conversation.Turn // nil: the model was not asked
	machine     turn.Machine
	statusEntry *status.Entry
	group       *turnGroup // shared by all choices of the request

	firstOutput time.Time         // when the first output came; zero: there was none
	finish      turn.FinishReason // empty: the turn has failed, or has not ended
	apiErr      *apierror.Error   // why the answer lacks this choice; nil: the answer has it
	account     turnAccount
}

// turnAccount has what is needed to charge a turn to its key.
type turnAccount struct {
	grant       *quota.Grant // counts the tokens for the key; nil: the key limits neither turns nor tokens
	input       int64        // estimated tokens of the input
	outputChars int          // characters of the answer so far
	modelAsked  bool         // true: missing counts of tokens are estimated, since the model was probably asked; false: they are estimated only if there was an output
}

// Consume passes outputs to the responder, except a failure. After an error it only returns that.
func (c *choice) Consume(outputs []turn.Output) error {
	if c.firstOutput.IsZero() && outputs[0].Kind != turn.OutputFinish && outputs[0].Kind != turn.OutputFailure {
		c.firstOutput = time.Now()
	}
	chars := countCharacters(outputs)
	c.account.outputChars += chars
	c.statusEntry.Add(chars)
	last := len(outputs) - 1
	ended, failed := outputs[last].Kind == turn.OutputFinish, outputs[last].Kind == turn.OutputFailure
	if ended {
		c.finish = outputs[last].End.Finish
		c.settle(true)
	}
	t := c.group
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended || failed {
		t.tally.add(c)
	}
	if failed {
		outputs = outputs[:last]
	}
	if t.err == nil && len(outputs) > 0 {
		t.err = t.responder.write(c.index, outputs)
	}
	return t.err
}

// Restarted tells the responder that the turn was started again.
func (c *choice) Restarted() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.responder.restart()
}

// Leave passes outputs that were withheld when the client left to the responder: they may be stored.
func (c *choice) Leave(outputs []turn.Output) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.responder.writeUnread(c.index, outputs)
}

// NextWake returns the time until Wake has to be called.
func (c *choice) NextWake() time.Duration {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	return c.group.responder.nextWake()
}

// Wake lets the responder write what is due, such as the header. If the request has failed, Wake
// writes nothing, so that the failure can still become the HTTP status.
func (c *choice) Wake() error {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.group.err == nil {
		c.group.err = c.group.responder.wake()
	}
	return c.group.err
}

// Committed records that the turn will not be started again. When this is so for all choices, it
// drops what starting turns needed, and releases the memory of the body that nothing else uses.
func (c *choice) Committed() {
	t := c.group
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restartable--; t.restartable > 0 {
		return
	}
	plan := t.req.plan
	plan.Thread, plan.History, plan.Turn = codexrpc.ThreadStartParams{}, nil, codexrpc.TurnStartParams{}
	t.req.body.Shrink(t.req.kept.forget())
}

func countCharacters(outputs []turn.Output) (sum int) {
	for i := range outputs {
		if outputs[i].Kind != turn.OutputPicture { // a picture is no text
			sum += utf8.RuneCountInString(outputs[i].Text)
		}
	}
	return sum
}
