package aggregator

import "github.com/caddy-codex/caddy-codex/aggregator/usetool"

// actionCount counts the calls of one action (a tool with its arguments), by blocks and structured calls.
type actionCount struct{ textual, structured int }

// countActions counts the calls that have all arguments and are not counted yet. It is called before each
// block: structured calls alone repeat no other call. With Dedup they may, so Reset makes the map, and counting
// begins at once.
func (c *Choice) countActions() {
	if c.actions == nil {
		c.actions = make(map[usetool.ActionKey]actionCount)
	}
	for _, call := range c.calls {
		if !call.counted && call.hasAllArguments() {
			c.countAction(call)
		}
	}
}

// countAction counts a call for its action. It returns the counts before this call. sameStructured is true
// only with Dedup, if a structured call has exactly the arguments of an earlier structured call.
func (c *Choice) countAction(call *callState) (before actionCount, sameStructured bool) {
	if c.actions == nil {
		return actionCount{}, false
	}
	action := usetool.Action(call.name, call.args.String())
	before = c.actions[action]
	if !call.isShown() && c.isFull() && before == (actionCount{}) {
		return before, false // the first call of its action is above the limit: it will be dropped
	}
	after := before
	if call.fromText {
		after.textual++
	} else {
		after.structured++
		if c.opts.Dedup {
			exact := usetool.StructuredAction(call.name, call.args.String())
			sameStructured = c.structuredActions[exact]
			c.structuredActions[exact] = true
		}
	}
	c.actions[action], call.counted = after, true
	return before, sameStructured
}

// isRepeat counts a complete call, and reports whether it repeats an earlier call. A model may write a
// block and make a structured call for the same action. Without Dedup, only such a pair is a repetition,
// and each block is paired with at most one structured call. With Dedup, a block repeats any earlier call
// of its action; a structured call repeats an earlier block of its action, or an earlier structured call
// with exactly its arguments.
func (c *Choice) isRepeat(call *callState) bool {
	before, sameStructured := c.countAction(call)
	if call.fromText {
		return before.textual < before.structured || c.opts.Dedup && before != (actionCount{})
	}
	return before.structured < before.textual || c.opts.Dedup && (before.textual > 0 || sameStructured)
}
