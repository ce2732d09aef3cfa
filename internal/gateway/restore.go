package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// restore adds to the history of a plan the reasoning that is remembered of its answers.
// The plan itself, which other attempts use, does not change.
func (c *choice) restore(plan *prompt.Plan) *prompt.Plan {
	k := &c.kept
	if k.in == nil || k.chain == nil || k.forgetful {
		return plan
	}
	chain := k.chain()
	if chain == nil {
		return plan
	}
	history, added := k.in.Memory().Restore(chain.Links, plan.History)
	if added == 0 {
		return plan
	}
	k.restored, c.repeatable = true, true // the provider may refuse it
	with := *plan
	with.History = history
	return &with
}

// unrestorable reports whether a turn has failed because the provider refuses the
// reasoning that its thread was given. That is then forgotten.
func (k *keeping) unrestorable(failure error) bool {
	if !k.restored || apierror.From(failure).Status != http.StatusBadRequest {
		return false
	}
	k.forget()
	return true
}

// forget forgets the reasoning that was restored.
func (k *keeping) forget() {
	k.restored, k.forgetful = false, true
	k.in.Memory().Forget(k.chain().Links)
}
