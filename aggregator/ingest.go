package aggregator

import (
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ingestOptions control how one ingest reads its input.
type ingestOptions struct {
	message    bool // top-level calls are complete, not deltas
	synthesize bool
	positioned bool // the event has a position, so that an equal head is a new fragment
}

// ingestion is the state of one ingest. It collects the deltas.
type ingestion struct {
	agg    *Aggregator
	opts   ingestOptions
	deltas []Delta
	calls  bool  // a call was found in the input, even if it was refused
	err    error // the first reason why a part of it is ignored
}

// fail records why a part of the input is ignored.
func (in *ingestion) fail(kind error, reason string) {
	if in.err == nil {
		in.err = fmt.Errorf("%w: %s", kind, reason)
	}
}

// malformed counts a part of the input that cannot be read.
func (in *ingestion) malformed(reason string) {
	in.agg.stats.Malformed++
	in.fail(ErrMalformed, reason)
}

// ingest reads one event and hands it to the reader of its shape.
func (a *Aggregator) ingest(choice int, event []byte, opts ingestOptions) Result {
	a.stats.Events++
	in := ingestion{agg: a, opts: opts}
	text, ok := wirejson.Valid(event)
	if !ok || !wirejson.IsObject(text) {
		in.malformed("it is not a JSON object")
		return Result{Err: in.err}
	}
	refusedBefore := a.stats.Malformed
	in.dispatch(choice, readMembers(text))
	if !in.calls && a.stats.Malformed == refusedBefore {
		a.stats.Unknown++
	}
	return Result{Updated: len(in.deltas) > 0, Deltas: in.deltas, Err: in.err}
}

// choice returns the result of Aggregator.choice. If that is nil, choice also counts the refused
// index in Stats.
func (in *ingestion) choice(index int) *Choice {
	in.calls = true
	c := in.agg.choice(index)
	switch {
	case c != nil:
	case index < 0:
		in.malformed("the index of a choice is negative")
	default:
		in.agg.stats.OverLimit++
		in.fail(ErrOverLimit, "too many choices")
	}
	return c
}

// take passes an input about a call to the choice with an index. It returns false if the choice
// does not exist and there is no room for another one.
func (in *ingestion) take(choice int, u *Input) (room bool) {
	c := in.choice(choice)
	if c == nil {
		return false
	}
	if c.echoes(u) {
		c.stats.Duplicates++
		return true
	}
	c.deltas = c.deltas[:0]
	before := c.stats
	parts := c.take(u, in.agg.parts[:0])
	if c.stats.Malformed > before.Malformed {
		in.fail(ErrMalformed, "a call has no name")
	}
	in.collect(c, &before, parts)
	return true
}

// collect keeps the deltas that announce a call or change its arguments. before is the Stats of the
// choice before these parts were made.
func (in *ingestion) collect(c *Choice, before *Stats, parts []Part) {
	if c.stats.OverLimit > before.OverLimit {
		in.fail(ErrOverLimit, "too many calls, or too large ones")
	}
	for i := range parts {
		if d := parts[i].Call; d != nil && (d.First || d.Replaced || d.Fragment != "") {
			in.deltas = append(in.deltas, *d)
		}
	}
	clear(parts)
	in.agg.parts = parts[:0]
}

// echoes reports whether an input was made from a snapshot of the choice, so that it adds nothing.
// Such an input has an id that this package made, not the backend. Its name and its arguments are
// those that the call has or had.
func (c *Choice) echoes(in *Input) bool {
	if in.ID == "" || c.keys[key{keyID, in.ID}] != nil {
		return false
	}
	own := c.own(in.ID)
	return own != nil && in.Name == own.name && strings.HasPrefix(own.args.String(), in.Text) && (in.Done || in.Text != "")
}

// own returns the call to which this package gave an id, or nil.
func (c *Choice) own(id string) *call {
	rest, ok := strings.CutPrefix(id, callPrefix)
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "_") // after the index of the choice
	n := 0
	for i := 0; i < len(rest) && rest[i] >= '0' && rest[i] <= '9' && n < len(c.calls); i++ {
		n = n*10 + int(rest[i]-'0')
	}
	if n >= len(c.calls) || c.calls[n].id != id {
		return nil
	}
	return c.calls[n]
}
