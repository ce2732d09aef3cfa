package conversation

import (
	"bytes"
	"crypto/sha256"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Answer identifies the texts and calls of an answer, as a client got them from a turn or sends
// them back. It stores hashes instead of the texts. White space at the beginning and at the end of
// the text does not count. The zero value is an empty answer.
type Answer struct {
	text  *digest // the hash of the text; nil: there is no text besides white space
	space []byte  // white space at the end of the text so far; it is hashed only if more text follows
	calls []callHash
	mixed bool // there is text after a call, an order that not every API can express when it is sent back
	size  int  // how many bytes the texts and calls have together
}

type callHash struct {
	name      string
	arguments Hash
}

// whiteSpace has the characters that clients may remove from both ends of a text.
const whiteSpace = " \t\r\n"

// Gap marks the boundary between two messages of the answer. If there is text already, Gap adds
// white space to it, as clients do that join the messages to one.
func (a *Answer) Gap() {
	if a.text != nil {
		a.space = append(a.space, turn.MessageGap...)
	}
}

// Text adds a piece of text. The answer does not depend on how the text is cut into pieces.
func (a *Answer) Text(text string) { a.add(wirejson.View(text)) }

// add adds a piece of text. It copies the text, so the caller may change the slice afterwards.
func (a *Answer) add(text []byte) {
	a.size += len(text)
	if a.text == nil {
		text = bytes.TrimLeft(text, whiteSpace)
	}
	if len(text) == 0 {
		return
	}
	trimmed := bytes.TrimRight(text, whiteSpace)
	if len(trimmed) > 0 {
		if a.text == nil {
			a.text = newDigest()
		}
		_, _ = a.text.Write(a.space)
		_, _ = a.text.Write(trimmed)
		a.space = a.space[:0]
		a.mixed = a.mixed || len(a.calls) > 0
	}
	a.space = append(a.space, text[len(trimmed):]...)
}

// Call adds a call. name is Codex's name of the tool. arguments are as the model wrote them, or as a client
// sends them back: the answer does not depend on the spelling of the JSON.
func (a *Answer) Call(name, arguments string) {
	a.size += len(name) + len(arguments)
	d := newDigest()
	d.field(canonicalArguments(arguments))
	a.calls = append(a.calls, callHash{name, d.sum()})
}

// release gives the memory of the hash back. The answer must not be hashed any more.
func (a *Answer) release() {
	if a.text != nil {
		digests.Put(a.text)
		a.text = nil
	}
}

// digest adds the answer to a digest, after before: the hash of the history that precedes the answer. calls
// is the number of calls in that history; the answer's calls are numbered on from there.
func (a *Answer) digest(d *digest, before Hash, calls int) {
	d.hash(before)
	d.field("assistant")
	if a.text != nil {
		d.number(sha256.Size)
		d.hash(a.text.current())
	} else {
		d.field("")
	}
	for i, call := range a.calls {
		d.number(calls + i)
		d.field(call.name)
		d.field(string(call.arguments[:]))
	}
}
