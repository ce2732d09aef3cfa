package aggregator

import "github.com/caddy-codex/caddy-codex/aggregator/usetool"

// seen counts the calls of one action (a tool with its arguments): textual counts the blocks in the
// text, structured counts the structured calls.
type seen struct{ textual, structured int }

// watchActions begins to count the calls of each action (tool and arguments) at the first block in
// the text. Before it, all calls are structured, and two structured calls are two actions, so their
// arguments need no parsing. With Dedup, Reset already begins to count.
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

// mayRepeat reports whether a call may turn out to be a repetition, and so has to wait until its
// arguments are complete: there is a call with the same name, and only the arguments can show
// whether both are one action. An Aggregator never calls End, which would release waiting calls, so
// its calls do not wait.
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

// remember counts the tool call made for its action. It returns the counts of the action before
// this call.
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

// repeats reports whether a complete call repeats an earlier one. For one action, a model may write
// a block and also make a structured call. So each block is paired with at most one structured call
// of the same action. Two blocks, or two structured calls, are two actions, unless Dedup is set.
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
