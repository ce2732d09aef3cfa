package aggregator

import "github.com/caddy-codex/caddy-codex/aggregator/usetool"

// seen counts how often an action came in each form.
type seen struct{ textual, structured int }

// watchActions begins to record what the calls do. It is called at the first block: from then on, a
// call may be the twin of another one. Arguments are parsed for this purpose only.
func (c *Choice) watchActions() {
	if c.actions != nil {
		return
	}
	c.actions = make(map[usetool.ActionKey]seen)
	for _, made := range c.calls {
		if made.done {
			c.remember(made)
		}
	}
}

// mayRepeat reports whether a call has to wait until its arguments are complete, since it may then
// turn out to be a repetition. Calls of an Aggregator do not wait, since it has no end of a turn.
func (c *Choice) mayRepeat(made *call) bool {
	if c.actions == nil || c.scanner == nil && !c.opts.Dedup {
		return false
	}
	for _, other := range c.calls {
		if other.name == made.name && (c.opts.Dedup || other.textual != made.textual) {
			return true
		}
	}
	return false
}

// remember counts the action of a call, and returns the counts before.
func (c *Choice) remember(made *call) (before seen) {
	if c.actions == nil {
		return seen{}
	}
	action := usetool.Action(made.name, made.args.String())
	before = c.actions[action]
	if !made.shown() && c.full() && before == (seen{}) {
		return before // the call is above the limit: nothing more is remembered
	}
	after := before
	if made.textual {
		after.textual++
	} else {
		after.structured++
	}
	c.actions[action] = after
	return before
}

// repeats reports whether a complete call repeats an earlier one. A model that writes a block
// and makes the same call besides means one action: each block is the twin of one structured
// call at most. Two calls of the same form are two actions, unless Dedup is set.
func (c *Choice) repeats(made *call) bool {
	if c.actions == nil {
		return false
	}
	before := c.remember(made)
	own, other := before.structured, before.textual
	if made.textual {
		own, other = before.textual, before.structured
	}
	return own < other || c.opts.Dedup && before != (seen{})
}
