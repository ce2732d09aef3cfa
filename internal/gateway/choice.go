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

// choice is one of the answers to a request. It has its own turn, and consumes the outputs of that
// turn.
type choice struct {
	index       int
	options     *turn.Options      // of this choice
	turn        *conversation.Turn // nil: the model was not asked
	machine     turn.Machine
	statusEntry *status.Entry
	group       *turnGroup // shared by all choices of the request

	firstOutput time.Time       // when the first output came; zero: there was none
	apiErr      *apierror.Error // why the answer lacks this choice; nil: the answer has it
	end         turnEnd         // how the turn ended; zero until then
	account     turnAccount
}

// turnEnd is how a turn has ended for its client.
type turnEnd struct {
	usage     codexrpc.Usage
	finish    turn.FinishReason // empty: the turn has failed
	calls     int               // how many tool calls the client got
	truncated bool              // true: there were more calls than the limit allows
}

// turnAccount has what is needed to charge a turn to its key.
type turnAccount struct {
	grant       *quota.Grant // counts the tokens for the key; nil: the key limits neither turns nor tokens
	input       int64        // estimated tokens of the input
	outputChars int          // characters of the answer so far
	modelAsked  bool         // true: missing counts of tokens are estimated, since the model was probably asked; false: they are estimated only if there was an output
}

// Consume passes outputs to the responder, except a failure.
func (c *choice) Consume(outputs []turn.Output) error {
	c.observe(outputs)
	chars := countCharacters(outputs)
	c.account.outputChars += chars
	c.statusEntry.Add(chars)
	switch last := len(outputs) - 1; outputs[last].Kind {
	case turn.OutputFinish:
		c.settle(true)
		c.group.addToTally(c)
	case turn.OutputFailure:
		outputs = outputs[:last]
		c.group.addToTally(c)
	}
	return c.group.write(c.index, outputs)
}

// Committed drops what was needed to start the turn, when no other choice needs it.
func (c *choice) Committed() { c.group.forgetPlan() }

// Restarted tells the responder that the turn was started again.
func (c *choice) Restarted() { c.group.restart() }

// observe records the time of the first output, the final usage and the final report.
func (c *choice) observe(outputs []turn.Output) {
	if c.firstOutput.IsZero() && outputs[0].Kind != turn.OutputFinish && outputs[0].Kind != turn.OutputFailure {
		c.firstOutput = time.Now()
	}
	last := &outputs[len(outputs)-1]
	if last.Kind != turn.OutputFinish && last.Kind != turn.OutputFailure {
		return
	}
	report := c.machine.Report()
	c.end = turnEnd{calls: report.Calls, truncated: report.Truncated}
	if last.End != nil {
		c.end.usage, c.end.finish = last.End.Usage, last.End.Finish
	}
}

// Leave is called after the client has left. It passes outputs that were withheld until now to the
// responder, since the answer may be stored.
func (c *choice) Leave(outputs []turn.Output) { c.group.writeUnread(c.index, outputs) }

// NextWake returns the time until Wake has to be called.
func (c *choice) NextWake() time.Duration { return c.group.nextWake() }

// Wake lets the responder write what is due, such as the header. If the request has failed, Wake
// writes nothing, so that the failure can still become the HTTP status.
func (c *choice) Wake() error { return c.group.wake() }

// countCharacters counts the characters of outputs.
func countCharacters(outputs []turn.Output) (sum int) {
	for i := range outputs {
		if outputs[i].Kind != turn.OutputPicture { // a picture is no text
			sum += utf8.RuneCountInString(outputs[i].Text)
		}
	}
	return sum
}
