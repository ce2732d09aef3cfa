package aggregator

import (
	"cmp"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// ChoiceOptions are the options of a [Choice]. The zero value is right for structured calls.
type ChoiceOptions struct {
	Options
	// Index is the choice's index, which is a part of the ids of its calls.
	Index int
	// Scanner are the options for finding blocks in the text. Nil: the text is not searched.
	Scanner *ScannerOptions
	// ToolName maps the name in a block to the name of the tool. Nil: both names are the same.
	ToolName func(name string) string
	// Dedup drops every repeated call. Without Dedup, only a block and a structured call that are the same
	// count as a repetition.
	Dedup bool
}

// Choice assembles the tool calls of one choice in one turn: structured calls, whole or in fragments, and
// blocks in the text. It decides which inputs are about the same call, and keeps the calls with their
// order, ids and arguments. Only one goroutine may use it at a time.
//
// Methods return the changes of an input as [Part] values, in order. Parts of text and parts of
// calls keep the order in which the model wrote them, so that a caller only has to pass them on.
type Choice struct {
	opts     ChoiceOptions
	scanner  *Scanner // nil: text is not searched
	segments []usetool.Segment

	calls        []*callState // the calls that are shown, in the order of their ordinals
	callsByID    map[key]*idCalls
	callsByPlace map[place]*callState              // the last call that was bound to each place
	lastCall     *callState                        // the last new call; nil: none, or it was refused
	argumentRoom int                               // bytes of arguments that may still be kept
	keyRoom      int                               // what is left of maxKeyBytes
	actions      map[usetool.ActionKey]actionCount // the number of calls of each action; nil: not counted

	structuredActions map[usetool.ActionKey]bool // exact actions of structured calls; only with Dedup

	deltas   []Delta // the memory for the field Call of the returned parts
	position uint64  // highest position given to Aggregator.IngestEvent
}

// NewChoice returns a Choice without calls.
func NewChoice(opts ChoiceOptions) *Choice {
	c := new(Choice)
	c.Reset(opts)
	return c
}

// Reset makes c a Choice without calls, as NewChoice does.
func (c *Choice) Reset(opts ChoiceOptions) {
	if opts.MaxCalls < 1 {
		opts.MaxCalls = DefaultMaxCalls
	}
	if opts.MaxArgumentBytes < 1 {
		opts.MaxArgumentBytes = DefaultMaxArgumentBytes
	}
	*c = Choice{opts: opts, argumentRoom: opts.MaxArgumentBytes, keyRoom: maxKeyBytes}
	if opts.Scanner != nil {
		c.scanner = NewScanner(*opts.Scanner)
	}
	if opts.Dedup {
		c.actions, c.structuredActions = make(map[usetool.ActionKey]actionCount), make(map[usetool.ActionKey]bool)
	}
}

// PartKind is the kind of a [Part].
type PartKind uint8

const (
	// PartText is text outside of calls, in Text.
	PartText PartKind = iota + 1
	// PartBlockStarted says that a block has begun. Its text is held from now on.
	PartBlockStarted
	// PartBlockAborted means that the open block is not a call. Reason is the cause. The text of the
	// block follows.
	PartBlockAborted
	// PartCall is a change of a call, in Call.
	PartCall
	// PartDuplicate is a call that was dropped because it repeats an earlier one.
	PartDuplicate
	// PartOverLimit is a call above the limit, or a call whose arguments were cut at the limit.
	PartOverLimit
	// PartRepeated is an input that added nothing: what it says was known already.
	PartRepeated
	// PartConflict is a complete text that differs from arguments that the model wrote: the text was
	// refused, or it replaced these arguments.
	PartConflict
	// PartEnded is a fragment for a call that had ended. It was ignored.
	PartEnded
	// PartMalformed is an ignored input: it identifies no call, or is a message's call without a name.
	PartMalformed
)

// AbortUndeclared: [ScannerOptions].Accept refuses the tool of a well-formed block.
const AbortUndeclared usetool.AbortReason = "undeclared"

// Part is one result of a [Choice].
type Part struct {
	Kind PartKind
	// Text is the text of a PartText. In parts that come from a complete block, it is the block as the
	// model wrote it.
	Text    string
	Call    *Delta              // of a PartCall; valid until the next method of the Choice is called
	Reason  usetool.AbortReason // of a PartBlockAborted
	Pattern string              // the textual form of a block; empty: <use_tool>
	Offset  int64               // where Text or the block begins in the text of the choice; 0 if that text is not searched
	Block   string              // of a part with a Reason: the text of the block, which follows in parts of text
}

// Text reads the next piece of the text, which may be cut anywhere. It appends to out the parts that are
// already certain, and returns out.
func (c *Choice) Text(text string, out []Part) []Part {
	if c.scanner == nil {
		return append(out, Part{Kind: PartText, Text: text})
	}
	c.deltas = c.deltas[:0]
	c.segments = c.scanner.Feed(text, c.segments[:0])
	return c.appendParts(out)
}

// Plain is the fast path of Text. If no text is held, and no byte of the piece can belong to a block, Plain
// reads the piece and returns true: the caller passes the piece on as it is. Otherwise it reads nothing and
// returns false: the caller has to call Text.
func (c *Choice) Plain(text string) bool {
	return c.scanner == nil || c.scanner.patterns == nil && c.scanner.useTool.skip(text)
}

// EndMessage ends a message: it appends the held text to out, and returns out. An open block becomes text,
// after a PartBlockAborted with the given reason (empty: [usetool.AbortUnclosed]).
func (c *Choice) EndMessage(reason usetool.AbortReason, out []Part) []Part {
	if c.scanner == nil {
		return out
	}
	c.deltas = c.deltas[:0]
	c.segments = c.scanner.Finish(reason, c.segments[:0])
	return c.appendParts(out)
}

func (c *Choice) appendParts(out []Part) []Part {
	for i := range c.segments {
		s := &c.segments[i]
		switch s.Kind {
		case usetool.SegmentText:
			out = append(out, Part{Kind: PartText, Text: s.Text, Offset: s.Offset})
		case usetool.SegmentStarted:
			out = append(out, Part{Kind: PartBlockStarted, Pattern: s.Pattern, Offset: s.Offset})
		case usetool.SegmentBlock:
			out = c.addBlock(s, out)
		case usetool.SegmentAborted, usetool.SegmentUndeclared:
			out = append(out, Part{
				Kind: PartBlockAborted, Reason: cmp.Or(s.Reason, AbortUndeclared), Pattern: s.Pattern, Offset: s.Offset, Block: s.Block,
			})
		}
	}
	clear(c.segments)
	return out
}

// addBlock makes a call of a block. Each part that it appends has the block's text, pattern and offset.
func (c *Choice) addBlock(s *usetool.Segment, out []Part) []Part {
	first, name := len(out), s.Name
	if c.opts.ToolName != nil {
		name = c.opts.ToolName(name)
	}
	out = c.addBlockCall(place{}, name, s.Arguments, out)
	for i := first; i < len(out); i++ {
		out[i].Text, out[i].Pattern, out[i].Offset = s.Text, s.Pattern, s.Offset
	}
	return out
}

func (c *Choice) isFull() bool { return len(c.calls) >= c.opts.MaxCalls }

// BlockOpen reports whether a block is held back: its opener is complete, but not its end.
func (c *Choice) BlockOpen() bool { return c.scanner != nil && c.scanner.Open() }

// Writing reports whether text is held because the model may be writing a block. It returns false
// if an open <use_tool> block has prose after its tag: such a text only mentions the tag.
func (c *Choice) Writing() bool {
	if c.scanner == nil || c.scanner.useTool.reader == nil {
		return c.Held() > 0
	}
	block := c.scanner.useTool.held
	return !usetool.IsProse(string(block[:min(len(block), 2*usetool.MaxOpener)])) // IsProse reads no more bytes
}

// Held returns how many bytes of the text are held.
func (c *Choice) Held() int {
	if c.scanner == nil {
		return 0
	}
	return c.scanner.Held()
}

// Calls returns the calls in the order in which they were shown, by index. Calls that are not shown, for
// example because they have no name, are left out. Without calls, the result is nil.
func (c *Choice) Calls() []Record {
	if len(c.calls) == 0 {
		return nil
	}
	records := make([]Record, len(c.calls))
	for i, call := range c.calls {
		records[i] = call.record(c.opts.Index)
	}
	return records
}

// keep returns a copy of a name, or of the text of so many keys. It returns false if keyRoom is too small for
// the copy, and keySize for each key.
func (c *Choice) keep(text string, keys int) (string, bool) {
	size := len(text) + keys*keySize
	if size > c.keyRoom {
		return "", false
	}
	c.keyRoom -= size
	return strings.Clone(text), true
}
