package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// MessageOption changes how IngestMessage reads a message.
type MessageOption func(*ingestOptions)

// SynthesizeCalls makes calls of the blocks in a message's text, by every
// registered text pattern, if the choice has no structured call. A block is identified
// by its message's id and its place in the text, so that the same message again, or more
// of it, adds no call twice. Each of several identical blocks is a call.
func SynthesizeCalls() MessageOption {
	return func(o *ingestOptions) { o.synthesize = true }
}

// chatMessage takes a complete message: its calls, and the blocks of its text if
// that is asked for.
func (in *ingestion) chatMessage(choice int, id string, m members) {
	for _, cc := range in.chatCalls(m, sourceMessage) {
		s := in.choice(choice)
		if s == nil {
			return
		}
		if !in.echo(s, cc.callID) {
			in.completeCall(s, cc)
		}
	}
	if in.opts.synthesize {
		in.textCalls(choice, id, m.wholeText())
	}
}

// completeCall processes one call of a message. A call without a name must be known.
func (in *ingestion) completeCall(s *choiceState, cc chatCall) {
	var c *call
	if cc.name != "" {
		c = in.headed(s, cc)
	} else if c = s.continued(cc); c == nil {
		in.agg.stats.Malformed++
	}
	if c != nil {
		cc.done = true
		in.apply(s, c, &cc.update)
	}
}

// textCalls makes calls of the blocks of a text.
func (in *ingestion) textCalls(choice int, id, text string) {
	blocks := extract(in.agg.patterns, text)
	if len(blocks) == 0 {
		return
	}
	s := in.choice(choice)
	if s == nil || s.structured > 0 {
		return
	}
	for _, b := range blocks {
		// The name distinguishes two messages without ids that have a block at the
		// same place.
		label := id + "\x00" + b.Name
		k := key{kind: keyBlock, text: label, place: b.Start}
		c := s.keys[k]
		if c == nil {
			if c = in.create(s, true); c == nil {
				return
			}
			in.bind(s, c, k)
		}
		in.apply(s, c, &update{name: b.Name, text: jsontext.Plain(b.Arguments), from: sourceMessage, done: true, sequence: noSequence})
	}
}

// wholeText returns the text of a message: its content, if that is a string, or
// the text of its parts, one behind the other.
func (m members) wholeText() string {
	if text, ok := jsontext.AsString(m.text); ok {
		return text.String()
	}
	if text, ok := jsontext.AsString(m.content); ok {
		return text.String()
	}
	var out strings.Builder
	for w := jsontext.Walk(m.content); w.Next(); {
		if text, ok := jsontext.AsString(readMembers(w.Value).text); ok {
			out.WriteString(text.String())
		}
	}
	return out.String()
}
