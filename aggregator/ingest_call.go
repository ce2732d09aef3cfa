package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// typedCall applies a call that the caller has read.
func (in *ingestion) typedCall(choice int, c Call) {
	if len(c.Name) > maxNameBytes || len(c.BackendID) > maxNameBytes {
		in.agg.stats.Malformed++
		return
	}
	u := newUpdate()
	u.name, u.callID, u.done = c.Name, c.BackendID, c.Done
	u.text = jsontext.Plain(c.Arguments)
	switch {
	case c.Fragment:
		u.from = sourceStream
		if c.Sequence > 0 {
			u.sequence = int64(min(c.Sequence, 1<<62))
		}
	case c.Arguments != "" || c.Done:
		u.from, u.done = sourceItem, true
	}
	in.takeUpdate(choice, &u)
}
