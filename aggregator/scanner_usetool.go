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
// No byte is read a third time after a broken JSON value. The lexer accepts neither < nor a
// backslash outside of strings. Let block A end at a tag in a string of its broken value, so that
// the text after that tag is read again. Assume that this text has a block B, whose broken value
// also has a tag in a string, before the byte that broke A's value. B's opening tag was in a string
// of A's value. The first quote of B's value ended that string for A and began a string for B. Each
// later quote did the same, since there is no backslash where one of the two values is outside a
// string. So the tag in B's string was outside the strings of A's value, and broke A's value
// earlier: a contradiction.
type useToolReader struct {
	json wirejson.Lexer
	tag  int    // the offset of the last < if no > has come since; 0: there is none
	mark ending // where the block ends if the JSON value that is being read breaks: at the first such tag in its strings
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
