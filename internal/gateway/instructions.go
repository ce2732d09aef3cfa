package gateway

import (
	"context"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// Instructions is where the instructions of a conversation go.
type Instructions string

// The values of [Options.Instructions].
const (
	InstructionsAuto    Instructions = "auto"    // replace; append where the provider refuses that
	InstructionsReplace Instructions = "replace" // in the place of Codex's own prompt
	InstructionsAppend  Instructions = "append"  // behind it
)

// placeOn returns the place of a thread of a plan on a process. A plan without a model is
// for the app-server's own.
func (g *Gateway) placeOn(ctx context.Context, process *appserver.Process, conn *codexrpc.Conn, plan *prompt.Plan) (threads.Place, error) {
	model := plan.Thread.Model
	if model == "" {
		var err error
		if model, err = conn.DefaultModel(ctx); err != nil {
			return threads.Place{}, err
		}
	}
	return threads.Place{Process: process, Conn: conn, Model: model, Instructions: g.placement(conn, process, model, plan)}, nil
}

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
func (g *Gateway) repeatable(at threads.Place) bool {
	return g.opts.Instructions == InstructionsAuto && !at.Instructions.Append && !at.Conn.TakesInstructions(at.Model)
}

// refused reports whether a turn has failed because the provider refuses its
// instructions. It records the refusal for the login.
func (g *Gateway) refused(c *choice, failure error) bool {
	if g.opts.Instructions != InstructionsAuto || c.place.Instructions.Append || !apierror.RefusesInstructions(failure) {
		return false
	}
	if c.place.Conn.InstructionsRefused(c.place.Model) {
		g.opts.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}
