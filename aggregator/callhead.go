package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// callHead records the heads of a call: the chat deltas that have its name.
//
// Most backends send one head for each call. Some repeat it with every fragment.
// Chat deltas have no identity, so a head that equals the first one is either the
// same event again or the next fragment of such a backend. It counts as a fragment
// if the caller gave its position, or if another head differed from the first one,
// which only such a backend does. Until then equal heads right behind the first
// one are counted, and what they brought is added when a head differs. A fragment
// without a head, or the end of the call, shows that they were repetitions.
type callHead struct {
	seen     bool
	repeats  bool // each head is a fragment
	at, size int  // the place of the first head's text in the arguments
	equal    int  // heads equal to the first one, while nothing shows what they are
}

// newHead reports whether the text of a head is a fragment that is to be appended
// to the call, and not a repetition.
func (in *ingestion) newHead(s *choiceState, c *call, text jsontext.String) bool {
	h := &c.head
	if !h.seen {
		// A call that already has a name and a text is known from another shape.
		fresh := c.name == "" || c.source == sourceNone
		h.seen = true
		if fresh {
			plain, _ := text.CutHalf()
			h.at, h.size = c.args.Len(), len(plain.String())
		}
		return fresh
	}
	if in.opts.positioned || h.repeats {
		return true
	}
	first := c.args.String()[h.at:min(h.at+h.size, c.args.Len())]
	if plain, _ := text.CutHalf(); plain.String() == first {
		if c.args.Len() == h.at+h.size && !c.done {
			h.equal++
		}
		return false
	}
	h.repeats = true
	for ; h.equal > 0 && !c.truncated; h.equal-- {
		c.grow(jsontext.Plain(first), s)
	}
	return true
}
