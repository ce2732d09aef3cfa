package aggregator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

type ingestOptions struct {
	message    bool   // the input is a complete message, not a delta
	synthesize bool   // each block in the message's text becomes a call
	position   uint64 // of the event, see IngestEvent; 0: it has none
}

type ingestion struct {
	agg       *Aggregator
	opts      ingestOptions
	deltas    []Delta
	foundCall bool  // the input has a call, even if that call was refused
	err       error // the first reason why a part of the input was ignored; nil: there was none
}

func (in *ingestion) setError(kind error, reason string) {
	if in.err == nil {
		in.err = fmt.Errorf("%w: %s", kind, reason)
	}
}

func (in *ingestion) countMalformed(reason string) {
	in.agg.stats.Malformed++
	in.setError(ErrMalformed, reason)
}

func (a *Aggregator) ingest(choice int, event []byte, opts ingestOptions) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Events++
	if opts.position > 0 {
		if c := a.choice(choice); c != nil && opts.position <= c.position {
			a.stats.Duplicates++
			return Result{}
		} else if c != nil { // otherwise in.choice reports the error
			c.position = opts.position
		}
	}
	in := ingestion{agg: a, opts: opts}
	object := wirejson.Value(bytes.TrimSpace(event))
	if !json.Valid(event) || object.Kind() != wirejson.KindObject {
		in.countMalformed("it is not a JSON object")
		return Result{Err: in.err}
	}
	refusedBefore := a.stats.Malformed
	in.dispatch(choice, readMembers(bytes.Clone(object)))
	if !in.foundCall && a.stats.Malformed == refusedBefore {
		a.stats.Unknown++
	}
	return Result{Updated: len(in.deltas) > 0, Deltas: in.deltas, Err: in.err}
}

// choice returns the Choice with an index, as Aggregator.choice does. If that is nil, the refused index
// counts in Stats.
func (in *ingestion) choice(index int) *Choice {
	in.foundCall = true
	c := in.agg.choice(index)
	switch {
	case c != nil:
	case index < 0:
		in.countMalformed("the index of a choice is negative")
	default:
		in.agg.stats.OverLimit++
		in.setError(ErrOverLimit, "too many choices")
	}
	return c
}

func (in *ingestion) applyInput(choice int, input *Input) (hasRoom bool) {
	c := in.choice(choice)
	if c == nil {
		return false
	}
	if c.isFromSnapshot(input) {
		in.agg.stats.Duplicates++
		return true
	}
	c.deltas = c.deltas[:0]
	in.collect(c.applyInput(input, in.agg.parts[:0]))
	return true
}

// collect keeps the deltas that announce a call or change its arguments, and counts the other parts.
func (in *ingestion) collect(parts []Part) {
	stats := &in.agg.stats
	for i := range parts {
		switch parts[i].Kind {
		case PartCall:
			if d := parts[i].Call; d.First || d.Replaced || d.Fragment != "" {
				in.deltas = append(in.deltas, *d)
			}
		case PartDuplicate, PartRepeated:
			stats.Duplicates++
		case PartEnded:
			stats.Late++
		case PartConflict:
			stats.Conflicts++
		case PartOverLimit:
			stats.OverLimit++
			in.setError(ErrOverLimit, "too many calls, or too large ones")
		case PartMalformed:
			in.countMalformed("a call has no name")
		}
	}
	clear(parts)
	in.agg.parts = parts[:0]
}

// isFromSnapshot reports whether an input was made from a snapshot of the choice, so that it adds nothing:
// this package made its id, it has the name of the call, and arguments that the call has or had.
func (c *Choice) isFromSnapshot(in *Input) bool {
	own := c.callByOwnID(in.ID)
	return own != nil && c.callsByID[key{keyID, in.ID}] == nil && in.Name == own.name &&
		strings.HasPrefix(own.args.String(), in.Text) && (in.Done || in.Text != "")
}

func (c *Choice) callByOwnID(id string) *callState {
	if rest, ok := strings.CutPrefix(id, callPrefix); ok {
		_, rest, _ = strings.Cut(rest, "_") // cuts off the index of the choice
		ordinal, _, _ := strings.Cut(rest, "_")
		if n, err := strconv.ParseUint(ordinal, 10, 32); err == nil && n < uint64(len(c.calls)) && c.calls[n].id == id {
			return c.calls[n]
		}
	}
	return nil
}
