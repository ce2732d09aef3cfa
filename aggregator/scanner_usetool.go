package aggregator

import (
	"bytes"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// useToolOpenings is how <use_tool> blocks begin.
var useToolOpenings = []opening{{start: "<use_tool"}}

func isSelfClosed(tag []byte) bool { return bytes.HasSuffix(tag, []byte("/>")) }

// useToolReader finds the end of a <use_tool> block.
//
// No byte is read a third time after a broken JSON value, since the lexer accepts neither <
// nor a backslash outside of strings. Let a block end at a tag in a string of its broken
// value. Assume that in the text that is then read again there is another block whose
// broken value has a tag in a string, before the byte that broke the first value. The
// opening tag of that block stood in a string of the first value. Its first quote ended
// that string for the first value and began one for its own, and so did each later quote,
// as no backslash stands where one of the two values is outside a string. So its tag stood
// outside the strings of the first value and broke it earlier: a contradiction.
type useToolReader struct {
	json wirejson.Lexer
	tag  int    // the offset of the last < if no > has come since; 0: there is none
	mark ending // where the block ends if the JSON value in progress is none: at the first tag in its strings
}

// read implements blockReader.
func (r *useToolReader) read(block []byte, from int) ending {
	for i := from; i < len(block); i++ {
		switch r.json.Step(block[i]) {
		case wirejson.EndOfJSON:
			// Tags in its strings are data, and so is one that began there.
			r.tag, r.mark = 0, ending{}
		case wirejson.BrokenJSON:
			if r.mark.state != BlockOpen {
				r.mark.read = i + 1
				return r.mark
			}
		}
		switch {
		case block[i] == '<':
			r.tag = i
		case block[i] == '>' && r.tag > 0:
			if e := r.endTag(block[:i+1]); e.state != BlockOpen {
				return e
			}
		}
	}
	return ending{read: len(block)}
}

// endTag acts on the tag with which a part of the block ends.
func (r *useToolReader) endTag(block []byte) (e ending) {
	start, tag := r.tag, block[r.tag:]
	r.tag = 0
	switch {
	case string(tag) == usetool.Closer:
		e = ending{state: BlockComplete, at: len(block), read: len(block)}
	case string(tag) == usetool.ArgsOpener:
		if !r.json.Active() {
			r.json.Begin()
		}
	case !isSelfClosed(tag):
		if size, _ := usetool.Opener(tag); size > 0 {
			e = ending{state: blockNested, at: start, read: start}
		}
	}
	if !r.json.Active() {
		return e
	}
	if r.mark.state == BlockOpen {
		r.mark = e
	}
	return ending{}
}

// last implements blockReader.
func (r *useToolReader) last() ending {
	if r.mark.state != BlockOpen {
		return r.mark
	}
	return ending{at: r.tag}
}
