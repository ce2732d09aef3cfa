package gateway

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Instructions is where the instructions of a conversation go.
type Instructions string

// The values of [Options.Instructions].
const (
	InstructionsAuto    Instructions = "auto"    // replace; append where the provider refuses that
	InstructionsReplace Instructions = "replace" // in the place of Codex's own prompt
	InstructionsAppend  Instructions = "append"  // behind it
)

// placement returns where the instructions of a plan go on a thread of a process with
// this model.
func (g *Gateway) placement(conn *codexrpc.Conn, process *appserver.Process, model string, plan *prompt.Plan) prompt.Placement {
	own := process.Prompt(model)
	return prompt.Placement{
		Append: g.opts.Instructions == InstructionsAppend ||
			g.opts.Instructions == InstructionsAuto && conn.Strict() && !conn.TakesInstructions(model),
		Once: own.Twice && len(plan.Thread.DynamicTools) == 0,
		Own:  own.Own,
	}
}

// repeatable reports whether a turn is started once more if the provider refuses its
// instructions. It is not for a model with which the provider has accepted some
// before, so that such a request need not be kept.
func (g *Gateway) repeatable(at place) bool {
	return g.opts.Instructions == InstructionsAuto && !at.instructions.Append && !at.conn.TakesInstructions(at.model)
}

// refused reports whether a turn has failed because the provider refuses its
// instructions. It records the refusal for the login.
func (g *Gateway) refused(c *choice, failure error) bool {
	if g.opts.Instructions != InstructionsAuto || c.place.instructions.Append || !apierror.RefusesInstructions(failure) {
		return false
	}
	if c.place.conn.InstructionsRefused(c.place.model) {
		g.opts.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}
