package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Instructions says where the instructions of a conversation go.
type Instructions string

// The values of [Options.Instructions].
const (
	InstructionsAuto    Instructions = "auto"    // replace; append where the provider refuses that
	InstructionsReplace Instructions = "replace" // in the place of Codex's own prompt
	InstructionsAppend  Instructions = "append"  // behind it
)

// placement is where the instructions of a plan go on a thread of a process.
func (g *Gateway) placement(conn *codexrpc.Conn, process *appserver.Process, plan *openai.Plan) openai.Placement {
	model := plan.Thread.Model
	prompt := process.Prompt(model)
	return openai.Placement{
		Append: g.opts.Instructions == InstructionsAppend ||
			g.opts.Instructions == InstructionsAuto && conn.Strict() && !conn.TakesInstructions(model),
		Once: prompt.Twice && len(plan.Thread.DynamicTools) == 0,
		Own:  prompt.Own,
	}
}

// repeatable reports whether a turn has to be run once more if the provider refuses
// its instructions. Not so with a model with which it has taken such before, so
// that the request need not be kept.
func (g *Gateway) repeatable(at place) bool {
	return g.opts.Instructions == InstructionsAuto && !at.instructions.Append && !at.conn.TakesInstructions(at.model)
}

// errStrict ends a turn whose instructions the provider has refused, before its
// first output. It is to be run once more.
var errStrict = errors.New("the provider refuses the instructions")

// refused looks whether a failure is such a refusal and notes that for the login.
// It reports whether the turn is to be run once more.
func (g *Gateway) refused(c *choice, failure error) bool {
	if g.opts.Instructions != InstructionsAuto || c.place.instructions.Append || !openai.RefusesInstructions(failure) {
		return false
	}
	if c.place.conn.InstructionsRefused(c.place.model) {
		g.opts.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return c.repeatable
}

// drive runs the turn of a choice, once more if its instructions were refused.
func (g *Gateway) drive(ctx context.Context, plan *openai.Plan, c *choice, to *consumer) error {
	err := turn.Drive(ctx, c.thread, c.machine, to, g.opts.IdleTimeout)
	if !errors.Is(err, errStrict) {
		return err
	}
	if err := g.startAgain(ctx, plan, c); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, turn.ErrShutdown) {
			return cause
		}
		return to.Consume([]turn.Output{{Kind: turn.OutputFailure, Err: err}})
	}
	to.settle(false)
	return turn.Drive(ctx, c.thread, c.machine, to, g.opts.IdleTimeout)
}

// startAgain starts the turn of a choice anew, with the same login and the
// instructions behind Codex's own prompt.
func (g *Gateway) startAgain(ctx context.Context, plan *openai.Plan, c *choice) error {
	at := c.place
	at.instructions.Append = true
	thread, err := g.startThread(ctx, at, plan)
	if err != nil {
		return err
	}
	c.thread.Close(nil)
	c.thread, c.place, c.machine = thread, at, turn.New(c.options)
	return c.startTurn(ctx, plan)
}

// settler hands a request over once none of its turns may have to be started
// again.
type settler struct {
	mu   sync.Mutex
	left int // turns that may
	req  *request
}

func newSettler(req *request, choices []*choice) *settler {
	s := &settler{req: req}
	for _, c := range choices {
		if c.repeatable {
			s.left++
		}
	}
	if s.left == 0 {
		req.handOver()
	}
	return s
}

// settle notes that the turn of a choice will not be started again, and whether
// the provider has taken its instructions.
func (s *settler) settle(c *choice, taken bool) {
	if !c.repeatable {
		return
	}
	c.repeatable = false
	if taken {
		c.place.conn.InstructionsTaken(c.place.model)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.req.handOver()
	}
}
