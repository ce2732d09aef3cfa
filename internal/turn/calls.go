package turn

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// candidate is a call of the model, in either form, that the client may get.
type candidate struct {
	backendID string // of a structured call; a textual one has none
	name      string // the client's
	arguments string // JSON text
	textual   bool   // it came as a block of text
	block     string // the <use_tool> block as the model wrote it; empty: it came in another form
}

// calls counts the calls that the client gets, and remembers which actions the model has
// asked for.
type calls struct {
	opts    *Options
	count   int
	known   map[eventKey]bool // structured calls of events so far
	actions map[usetool.ActionKey]seen
}

// eventKey identifies a structured call: a hash of the backend's id, the name and the
// arguments. The id alone is not enough, since models give several calls of one response
// the same id; Codex 0.169 then sends each and loses the result of the first.
type eventKey [sha256.Size]byte

// seen counts how often an action came in each form.
type seen struct{ textual, structured int }

// repeated reports whether an earlier event had the same structured call: the same id,
// name and arguments. It remembers as many calls as a turn may have; beyond that number,
// all are new, and so are those without an id.
func (c *calls) repeated(call *candidate) bool {
	if call.backendID == "" {
		return false
	}
	hash := sha256.New()
	for _, part := range []string{call.backendID, call.name, call.arguments} {
		// The length makes the parts unambiguous. A hash returns no errors.
		_, _ = fmt.Fprintf(hash, "%d:", len(part))
		_, _ = io.WriteString(hash, part)
	}
	key := eventKey(hash.Sum(nil))
	if c.known[key] {
		return true
	}
	if c.known == nil {
		c.known = make(map[eventKey]bool)
	}
	if len(c.known) < aggregator.DefaultMaxCalls {
		c.known[key] = true
	}
	return false
}

// duplicate reports whether a call repeats an earlier one. A model that writes
// a block and makes the same call besides means one action: each block is the
// twin of one structured call at most. Two of the same form are two actions,
// unless dedup is set. Once the calls are full, no new action is remembered.
//
// Only here are arguments parsed, and only if a repetition is possible at all.
func (c *calls) duplicate(call *candidate, full bool) bool {
	if !c.opts.textual() && !c.opts.ToolBlockDedup {
		return false
	}
	action := usetool.Action(call.name, call.arguments)
	before := c.actions[action]
	if full && before == (seen{}) {
		return false
	}
	after := before
	own, other := &after.structured, before.textual
	if call.textual {
		own, other = &after.textual, before.structured
	}
	*own++
	if c.actions == nil {
		c.actions = make(map[usetool.ActionKey]seen)
	}
	c.actions[action] = after
	return *own <= other || (c.opts.ToolBlockDedup && before != seen{})
}
