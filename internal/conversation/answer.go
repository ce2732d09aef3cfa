package conversation

import (
	"bytes"
	"crypto/sha256"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Answer is an answer as a client got it from a turn, or as the client sends it back: texts and
// calls. It holds hashes, not texts. The zero value is an empty answer.
type Answer struct {
	text    *digest // of the texts so far, without white space around them and without pending; nil: pending has all
	pending []byte  // text that is to be hashed, up to maxPending bytes
	said    bool    // the texts have more than white space
	space   []byte  // white space after the text so far; it counts once more text follows
	calls   []callHash
	mixed   bool // there is text behind a call
	size    int
}

// maxPending is how many bytes of text wait to be hashed together: a delta is shorter than
// the blocks that a hash works on.
const maxPending = 512

type callHash struct {
	name      string
	arguments Hash
}

// whiteSpace has the characters that clients remove from both ends of a text.
const whiteSpace = " \t\r\n"

// Gap begins another message of the answer. A client may read both messages as one text.
func (a *Answer) Gap() {
	if a.said {
		a.space = append(a.space, turn.MessageGap...)
	}
}

// Text adds text. The same text makes the same answer, however it is cut into pieces.
func (a *Answer) Text(text string) { a.add(wirejson.View(text)) }

// add adds text, and does not keep the slice.
func (a *Answer) add(text []byte) {
	a.size += len(text)
	if !a.said {
		text = bytes.TrimLeft(text, whiteSpace)
	}
	if len(text) == 0 {
		return
	}
	shown := bytes.TrimRight(text, whiteSpace)
	if len(shown) > 0 {
		a.write(a.space)
		a.write(shown)
		a.space, a.said = a.space[:0], true
		a.mixed = a.mixed || len(a.calls) > 0
	}
	a.space = append(a.space, text[len(shown):]...)
}

// write adds a part of the text as it is.
func (a *Answer) write(part []byte) {
	if len(a.pending)+len(part) > maxPending {
		a.flush()
	}
	if len(part) > maxPending {
		_, _ = a.text.Write(part)
		return
	}
	a.pending = append(a.pending, part...)
}

// flush hashes what is pending.
func (a *Answer) flush() {
	if a.text == nil {
		a.text = newDigest()
	}
	_, _ = a.text.Write(a.pending)
	a.pending = a.pending[:0]
}

// Size is how many bytes the texts and the calls have.
func (a *Answer) Size() int { return a.size }

// Mixed reports whether there is text behind a call. Not every API can express that order, so a
// client may send text and calls back in another order.
func (a *Answer) Mixed() bool { return a.mixed }

// Call adds a call under Codex's name of the tool, with its arguments as the model
// wrote them or as the client sends them back.
func (a *Answer) Call(name, arguments string) {
	a.size += len(name) + len(arguments)
	d := newDigest()
	d.field(canonicalArguments(arguments))
	a.calls = append(a.calls, callHash{name, d.sum()})
}

// textHash is the hash of the texts.
func (a *Answer) textHash() Hash {
	if a.text == nil {
		return sha256.Sum256(a.pending)
	}
	a.flush()
	a.text.Sum(a.text.scratch[:0])
	return *a.text.scratch
}

// digest adds the answer to a digest. before is the hash of the history before the answer, calls
// its number of calls.
func (a *Answer) digest(d *digest, before Hash, calls int) {
	d.hash(before)
	d.field("assistant")
	if a.said {
		d.number(sha256.Size)
		d.hash(a.textHash())
	} else {
		d.field("")
	}
	for i, call := range a.calls {
		d.number(calls + i)
		d.field(call.name)
		d.field(string(call.arguments[:]))
	}
}
