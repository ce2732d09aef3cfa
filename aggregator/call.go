package aggregator

import (
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
	SourceFragment               // the next part of the text
	SourceText                   // the complete text: of a message, or of arguments.done
	SourceItem                   // the complete item, as the model's response holds it
)

// call is one tool call of a choice.
type call struct {
	ordinal int              // place among the calls that are shown; -1 until it is shown
	id      string           // tool_<choice>_<ordinal>[_<suffix>]; empty until it is shown
	ids     [keyKinds]string // the backend's ids, by kind; empty while none is known
	place   place
	name    string
	textual bool // made from a block of text

	args      strings.Builder
	source    Source
	wholes    [wholeKinds]wholeText
	half      string // the first half of a surrogate pair at the end of the last fragment
	sequence  int64  // the highest number of the events about the call, plus 1; 0: none had one
	head      callHead
	begun     bool // a Responses item announced it
	done      bool
	waits     bool // it is not shown before it is complete, since it may repeat another call
	dropped   bool // it repeats another call, or is beyond the limit
	truncated bool

	sum       [sha256.Size]byte // of args, computed when it is needed; zero: not computed
	transient bool              // no id or place refers to it: it is forgotten unless it is shown at once
	bindings  int               // how many ids and places refer to it
	round     uint64            // of the last input about it, see Input

	emitted  int  // how many bytes of args the deltas so far had
	replaced bool // args was replaced since the last delta
	ended    bool // a delta has said that the call is done
}

// wholeKind is a kind of input that has the complete text of a call's arguments. If two inputs of
// the same kind have different texts, they are about two calls.
type wholeKind uint8

const (
	wholeNone    wholeKind = iota
	wholeMessage           // an entry of a message
	wholeItem              // an item of a Responses stream
	wholeRaw               // an item of a Responses stream, in a message of the app-server
	wholeKinds
)

// wholeText is a complete text that was given as the arguments of a call.
type wholeText struct {
	state wholeState
	sum   [sha256.Size]byte // of the text, in the state wholeOther
}

// wholeState is what is known of the complete text of one wholeKind: whether it has come, and
// whether it is the text of the call.
type wholeState uint8

const (
	wholeUnknown wholeState = iota // no text of this kind has come
	wholeOwn                       // it is the text of the call
	wholeOther                     // it differs from the text of the call
)

// fits reports whether an event with this name can be about the call: the names are equal, or one
// of them is empty.
func (c *call) fits(name string) bool { return name == "" || c.name == "" || c.name == name }

// shown reports whether the call has its id, and is in snapshots.
func (c *call) shown() bool { return c.ordinal >= 0 }

// backend returns the backend's id of the call. If that id has not come yet, backend returns the id
// of the app-server's item for the call: the app-server uses the backend's id for it.
func (c *call) backend() string {
	if c.ids[keyID] == "" {
		return c.ids[keyThreadItem]
	}
	return c.ids[keyID]
}

// delta returns the changes of the call since its last delta; first is true for its first delta.
// Arguments and Fragment are views of the call's buffer, whose bytes do not change.
func (c *call) delta(choice int, first bool) Delta {
	text := c.args.String()
	d := Delta{
		Choice: choice, Index: c.ordinal, ID: c.id, Type: CallType, BackendID: c.backend(),
		Name: c.name, Arguments: text, Fragment: text[c.emitted:],
		First: first, Replaced: c.replaced, Done: c.done,
	}
	c.emitted, c.replaced, c.ended = len(text), false, c.done
	return d
}

// record returns the call as it stands.
func (c *call) record(choice int) Record {
	return Record{
		ID: c.id, Type: CallType, Function: Function{Name: c.name, Arguments: c.args.String()},
		Choice: choice, Index: c.ordinal, BackendID: c.backend(),
		Done: c.done, Truncated: c.truncated, Provisional: c.source == SourceParsed,
	}
}

// has reports whether the complete text of an input is the text of the call. If the call was
// truncated, the input's text only has to begin with the call's text.
func (c *call) has(in *Input) bool {
	if c.truncated {
		return strings.HasPrefix(in.Text, c.args.String())
	}
	return in.Text == c.args.String()
}

// gave reports whether an earlier input of the same wholeKind gave the call the same complete text.
// A text may have to be compared with the texts of all calls, so long texts are compared by their
// hashes.
func (c *call) gave(in *Input) bool {
	switch whole := &c.wholes[in.whole]; {
	case whole.state == wholeOther:
		return whole.sum == in.hash()
	case whole.state == wholeUnknown, !c.truncated && len(in.Text) != c.args.Len():
		return false
	case c.truncated || len(in.Text) <= sha256.BlockSize:
		return c.has(in)
	}
	return c.hash() == in.hash()
}

// note records the complete text of an input, so that gave can tell when it comes again. It does so
// only for the first input of each wholeKind. While the call itself has that text, no hash of it is
// stored.
func (c *call) note(in *Input) {
	whole := &c.wholes[in.whole]
	switch {
	case in.whole == wholeNone || whole.state != wholeUnknown:
	case !c.truncated && c.has(in):
		whole.state = wholeOwn
	default:
		*whole = wholeText{wholeOther, in.hash()}
	}
}

// part stores the hash of the arguments if an input had them as its complete text. It must be
// called before the arguments change, since the call then no longer has that text.
func (c *call) part() {
	for kind := range c.wholes {
		if whole := &c.wholes[kind]; whole.state == wholeOwn {
			*whole = wholeText{wholeOther, c.hash()}
		}
	}
}

// hash returns the hash of the arguments.
func (c *call) hash() [sha256.Size]byte {
	if c.sum == ([sha256.Size]byte{}) {
		c.sum = sha256.Sum256(wirejson.View(c.args.String()))
	}
	return c.sum
}

// hash returns the hash of the text.
func (in *Input) hash() [sha256.Size]byte {
	if in.sum == ([sha256.Size]byte{}) {
		in.sum = sha256.Sum256(wirejson.View(in.Text))
	}
	return in.sum
}

// halfSize and halfFirst are the size and the first byte of one half of a surrogate pair, encoded
// like a UTF-8 character. The text of an Input may begin and end with such a half.
const (
	halfSize  = 3
	halfFirst = 0xed
)

// startsWithLow reports whether a text begins with the second half of a surrogate pair.
func startsWithLow(text string) bool {
	return len(text) >= halfSize && text[0] == halfFirst && text[1] >= 0xb0 && text[1] < 0xc0
}

// cutHigh cuts the first half of a surrogate pair off the end of a text, if there is one.
func cutHigh(text string) (whole, half string) {
	n := len(text) - halfSize
	if n < 0 || text[n] != halfFirst || text[n+1] < 0xa0 || text[n+1] >= 0xb0 {
		return text, ""
	}
	return text[:n], text[n:]
}

// joinHalves returns the character of the two halves of a surrogate pair.
func joinHalves(high, low string) string {
	unit := func(half string) rune { return rune(half[1]&0x3f)<<6 | rune(half[2]&0x3f) }
	return string(0x10000 + (unit(high)&0x3ff)<<10 | unit(low)&0x3ff)
}

// replacement replaces half a surrogate pair if the other half does not come.
const replacement = "\ufffd"

// grow appends as much of a fragment as the choice has room for; whole reports whether all of it
// fit. If the fragment ends with the first half of a surrogate pair, that half waits for the next
// fragment.
func (c *call) grow(text string, s *Choice) (whole bool) {
	if c.half != "" && text != "" {
		high := c.half
		c.half = ""
		if startsWithLow(text) {
			whole, text = c.write(joinHalves(high, text), s), text[halfSize:]
		} else {
			whole = c.write(replacement, s)
		}
		if !whole {
			return false
		}
	}
	if startsWithLow(text) {
		if !c.write(replacement, s) {
			return false
		}
		text = text[halfSize:]
	}
	text, half := cutHigh(text)
	if half != "" {
		c.half = strings.Clone(half)
	}
	return c.write(text, s)
}

// write appends as much of a text as the choice has room for; whole reports whether all of it fit.
func (c *call) write(text string, s *Choice) (whole bool) {
	n := min(len(text), s.room)
	c.args.WriteString(text[:n])
	s.room -= n
	c.sum = [sha256.Size]byte{}
	c.truncated = c.truncated || n < len(text)
	return n == len(text)
}

// endHalf is called at the end of the arguments. If half a surrogate pair still waits for the other
// half, endHalf writes U+FFFD.
func (c *call) endHalf(s *Choice) {
	if c.half != "" {
		c.half = ""
		c.write(replacement, s)
	}
}

// replace discards the arguments, so that new ones can be written. It begins a new buffer, since
// deltas are views of the old one.
func (c *call) replace(s *Choice) {
	s.room += c.args.Len()
	c.args = strings.Builder{}
	c.replaced = c.replaced || c.emitted > 0
	c.emitted, c.head, c.truncated, c.sum = 0, callHead{}, false, [sha256.Size]byte{}
}
