package turn

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// candidate is a call that the model made, in either form, before the policy
// has decided what becomes of it.
type candidate struct {
	backendID string // of a structured call; a textual one has none
	name      string // the client's
	arguments string // JSON text
	block     string // of a textual call: the block as the model wrote it
}

func (c *candidate) textual() bool { return c.block != "" }

// calls gives the calls that the client gets their ids and their order, and
// knows which actions the model has already asked for.
type calls struct {
	choice  int
	agg     *aggregator.Aggregator
	count   int
	known   map[eventKey]bool // structured calls that events have told of
	actions map[usetool.ActionKey]seen
}

// eventKey tells structured calls apart: a hash of the backend's id, the name and
// the arguments. The id alone does not, since models give several calls of one
// response the same; Codex 0.169 then tells of each and loses the first one's
// result, which is no matter here, where results come with another thread.
type eventKey [sha256.Size]byte

// seen counts how often an action came in each form.
type seen struct{ textual, structured int }

func newCalls(opts *Options) *calls {
	return &calls{
		choice: opts.Choice,
		agg:    aggregator.New(aggregator.WithIDSuffix(opts.IDSuffix)),
	}
}

// repeated reports whether an event tells of a structured call again: one with
// the same id, name and arguments. It remembers as many calls as a turn may
// have; beyond, all are new, and so is one without an id.
func (c *calls) repeated(call *candidate) bool {
	if call.backendID == "" {
		return false
	}
	hash := sha256.New()
	for _, part := range []string{call.backendID, call.name, call.arguments} {
		// The length before the text: no text can pass for two. A hash takes
		// everything.
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
// unless dedup says otherwise. Once the calls are full, no new action is
// remembered.
func (c *calls) duplicate(call *candidate, dedup, full bool) bool {
	action := usetool.Action(call.name, call.arguments)
	before := c.actions[action]
	if full && before == (seen{}) {
		return false
	}
	after := before
	own, other := &after.structured, before.textual
	if call.textual() {
		own, other = &after.textual, before.structured
	}
	*own++
	if c.actions == nil {
		c.actions = make(map[usetool.ActionKey]seen)
	}
	c.actions[action] = after
	return *own <= other || (dedup && before != seen{})
}

// outputs makes a call one of the client's. There are none for a call without a
// name that a client could be told.
func (c *calls) outputs(call *candidate) []Output {
	result := c.agg.IngestCall(c.choice, aggregator.Call{
		// Not the backend's id, which two calls may share.
		BackendID: strconv.Itoa(c.count), Name: call.name, Arguments: call.arguments, Done: true,
	})
	outputs := make([]Output, 0, 3)
	for _, d := range result.Deltas {
		if d.First {
			c.count++
			outputs = append(outputs, Output{Kind: OutputCallStart, Call: d.Index, ID: d.ID, Name: d.Name})
		}
		if d.Fragment != "" {
			outputs = append(outputs, Output{Kind: OutputCallArguments, Call: d.Index, ID: d.ID, Text: d.Fragment})
		}
		if d.Done {
			outputs = append(outputs, Output{Kind: OutputCallEnd, Call: d.Index, ID: d.ID})
		}
	}
	return outputs
}
