package aggregator

import (
	"cmp"
	"crypto/sha256"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Source is where the text of a call's arguments comes from. The sources are ordered from the least
// to the most trusted. A complete text replaces only text from a less trusted source.
type Source uint8

// The sources of arguments.
const (
	SourceNone     Source = iota // there are no arguments
	SourceParsed                 // JSON that Codex rendered from the arguments it had parsed
	SourceFragment               // a piece of the text, which follows the pieces before
	SourceText                   // the complete text: of a message, or of arguments.done
	SourceItem                   // the complete item, as the model's response holds it
)

// callState is one tool call. It is shown to the Choice's user when it gets an ordinal and an id.
type callState struct {
	ordinal    int              // index among the shown calls; -1 until the call is shown
	id         string           // tool_<choice>_<ordinal>[_<suffix>]; empty until the call is shown
	backendIDs [keyKinds]string // the backend's ids, by kind; empty while none is known
	place      place
	name       string
	fromText   bool // made from a block of text

	args           strings.Builder
	source         Source
	completeHashes [completeKinds]textHash // of the first complete text of each kind; zero: none came
	pendingHalf    string                  // the first half of a surrogate pair at the end of the last fragment
	lastSequence   int64                   // the highest Input.sequence of the call
	head           callHead
	announced      bool // an event has announced the item of the call
	done           bool // the arguments are complete
	counted        bool // the call is counted in Choice.actions
	dropped        bool // never shown, since it repeats another call or is above a limit
	truncated      bool // arguments were lost at the limit

	json      wirejson.Lexer // finds the end of the arguments, see hasAllArguments
	jsonBytes int            // how many bytes of args json has read
	jsonEnded bool           // the JSON value in args is complete
	lastList  uint64         // the list that the last input about the call was in, see Input.list

	emittedBytes int  // how many bytes of args were in deltas
	replaced     bool // args was replaced since the last delta
}

// completeKind says where the complete arguments of a call were. If two texts of one kind differ, they
// belong to two calls.
type completeKind uint8

const (
	completeNone    completeKind = iota
	completeMessage              // an entry of a message
	completeItem                 // an item of a Responses stream
	completeRawItem              // an item of a Responses stream, in a message of the app-server
	completeKinds
)

// completeKind returns the kind of an input's complete text, or completeNone: text of arguments.done and of
// blocks has no kind, nor has text that is not complete.
func (in *Input) completeKind() completeKind {
	switch {
	case in.Source == SourceText && in.isChatEntry:
		return completeMessage
	case in.Source == SourceItem && in.raw:
		return completeRawItem
	case in.Source == SourceItem:
		return completeItem
	}
	return completeNone
}

// hasAllArguments reports whether the arguments are complete: the backend has said so, or they are a whole
// JSON object, array or string. Chat deltas, for example, do not say where the arguments end.
func (c *callState) hasAllArguments() bool {
	if c.jsonBytes == 0 {
		c.json.Begin()
	}
	for text := c.args.String(); !c.done && !c.jsonEnded && c.jsonBytes < len(text); c.jsonBytes++ {
		c.jsonEnded = c.json.Step(text[c.jsonBytes]) == wirejson.EndOfJSON
	}
	return c.done || c.jsonEnded
}

func (c *callState) matchesName(name string) bool {
	return name == "" || c.name == "" || c.name == name
}

func (c *callState) isShown() bool { return c.ordinal >= 0 }

// backendID returns the backend's id of the call. If none has come, it returns the app-server's id of the
// item: Codex gives both the same value.
func (c *callState) backendID() string {
	return cmp.Or(c.backendIDs[keyID], c.backendIDs[keyThreadItem])
}

// nextDelta returns the changes of the call since its last delta. Arguments and Fragment are views of the call's
// buffer, whose bytes do not change.
func (c *callState) nextDelta(choice int, first bool) Delta {
	text := c.args.String()
	d := Delta{Record: c.record(choice), Fragment: text[c.emittedBytes:], First: first, Replaced: c.replaced}
	c.emittedBytes, c.replaced = len(text), false
	return d
}

func (c *callState) record(choice int) Record {
	return Record{
		ID: c.id, Type: CallType, Function: Function{Name: c.name, Arguments: c.args.String()},
		Choice: choice, Index: c.ordinal, BackendID: c.backendID(),
		Done: c.done, Truncated: c.truncated, Provisional: c.source == SourceParsed,
	}
}

// hasText reports whether an input's complete text is the call's arguments or, if these were cut, begins so.
func (c *callState) hasText(in *Input) bool {
	if c.truncated {
		return strings.HasPrefix(in.Text, c.args.String())
	}
	return in.Text == c.args.String()
}

// textHash is the hash of a complete text; zero: not known.
type textHash [sha256.Size]byte

// ownText stands for the hash of a text that equals the call's arguments, until it is needed.
var ownText = textHash{1}

// receivedText reports whether an input's complete text equals the first text of the same completeKind that
// came for the call. Callers may check many calls, so receivedText compares hashes.
func (c *callState) receivedText(in *Input) bool {
	kind := in.completeKind()
	if c.completeHashes[kind] == (textHash{}) {
		return false
	}
	c.hashOwnText()
	return c.completeHashes[kind] == in.textHash()
}

// recordText records the complete text of an input for receivedText, if it is the first of its kind.
func (c *callState) recordText(in *Input) {
	switch kind := in.completeKind(); {
	case kind == completeNone || c.completeHashes[kind] != (textHash{}):
	case !c.truncated && in.Text == c.args.String():
		c.completeHashes[kind] = ownText
	default:
		c.completeHashes[kind] = in.textHash()
	}
}

// hashOwnText replaces ownText by the hash of the arguments. Callers are about to compare or change these.
func (c *callState) hashOwnText() {
	for kind := range c.completeHashes {
		if c.completeHashes[kind] == ownText {
			c.completeHashes[kind] = sha256.Sum256(wirejson.View(c.args.String()))
		}
	}
}

func (in *Input) textHash() textHash {
	if in.cachedHash == (textHash{}) {
		in.cachedHash = sha256.Sum256(wirejson.View(in.Text))
	}
	return in.cachedHash
}

// halfSize and halfFirst are the size and the first byte of one half of a surrogate pair, encoded
// like a UTF-8 character. The text of an Input may begin and end with such a half.
const (
	halfSize  = 3
	halfFirst = 0xed
)

func startsWithSecondHalf(text string) bool {
	return len(text) >= halfSize && text[0] == halfFirst && text[1] >= 0xb0 && text[1] < 0xc0
}

func cutFirstHalf(text string) (whole, half string) {
	n := len(text) - halfSize
	if n < 0 || text[n] != halfFirst || text[n+1] < 0xa0 || text[n+1] >= 0xb0 {
		return text, ""
	}
	return text[:n], text[n:]
}

func joinHalves(high, low string) string {
	unit := func(half string) rune { return rune(half[1]&0x3f)<<6 | rune(half[2]&0x3f) }
	return string(0x10000 + (unit(high)&0x3ff)<<10 | unit(low)&0x3ff)
}

// replacementChar replaces half a surrogate pair if the other half does not come.
const replacementChar = "\ufffd"

// appendFragment appends as much of a fragment as there is room for. The first half of a surrogate
// pair at its end waits for the next fragment.
func (c *callState) appendFragment(text string, choice *Choice) {
	if text == "" {
		return
	}
	second := startsWithSecondHalf(text)
	switch {
	case second && c.pendingHalf != "":
		c.appendText(joinHalves(c.pendingHalf, text), choice)
	case second, c.pendingHalf != "": // one half came without the other
		c.appendText(replacementChar, choice)
	}
	if second {
		text = text[halfSize:]
	}
	text, half := cutFirstHalf(text)
	c.pendingHalf = strings.Clone(half)
	c.appendText(text, choice)
}

// appendText appends as much of a text as the choice has room for, and nothing more after a text was cut.
func (c *callState) appendText(text string, choice *Choice) {
	if c.truncated {
		return
	}
	c.hashOwnText()
	n := min(len(text), choice.argumentRoom)
	c.args.WriteString(text[:n])
	choice.argumentRoom -= n
	c.truncated = n < len(text)
}

// flushHalf ends the arguments: half a surrogate pair that still waits becomes U+FFFD.
func (c *callState) flushHalf(choice *Choice) {
	if c.pendingHalf != "" {
		c.pendingHalf = ""
		c.appendText(replacementChar, choice)
	}
}

// discardArguments empties the arguments. It begins a new buffer, since deltas are views of the old buffer.
func (c *callState) discardArguments(choice *Choice) {
	c.hashOwnText()
	choice.argumentRoom += c.args.Len()
	c.args = strings.Builder{}
	c.replaced = c.replaced || c.emittedBytes > 0
	c.emittedBytes, c.head, c.truncated = 0, callHead{}, false
	c.jsonBytes, c.jsonEnded = 0, false
}
