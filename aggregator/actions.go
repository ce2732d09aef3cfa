package aggregator

import "github.com/caddy-codex/caddy-codex/aggregator/usetool"

// seen counts how often an action came as a block of text, and how often as a structured call.
type seen struct{ textual, structured int }

// watchActions begins to record the actions of the calls. It is called at the first block of text:
// before that, there is no block that a structured call could repeat. The arguments of calls are
// parsed for these records only.
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

// mayRepeat reports whether a call has to wait until its arguments are complete: a call with the
// same name exists, and equal arguments would make the new call a repetition. In an Aggregator calls
// do not wait, since it never calls End, which would release them.
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

// remember counts the action of the tool call made. It returns what the action's counts were before
// made was counted.
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

// repeats reports whether a complete call repeats an earlier one. A model may write a block and
// make the same structured call, and mean one action. So each block is paired with at most one
// structured call. Two calls of the same form are two actions, unless Dedup is set.
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
