package aggregator

import (
	"bytes"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// useToolForms has only the form of <use_tool> blocks.
var useToolForms = []blockForm{{prefix: "<use_tool"}}

func isSelfClosed(tag []byte) bool { return bytes.HasSuffix(tag, []byte("/>")) }

// useToolReader finds the end of a <use_tool> block.
//
// If a JSON value is broken, its block ends at the first tag in the value's strings that can end a
// block, and the text after this tag is read again. No byte is read a third time. Proof: let A be a
// broken value. Suppose that the text that is read again has a block with another broken value B.
// Suppose also that a string of B has a tag before the byte that broke A.
//   - The lexer accepts neither < nor a backslash outside of strings. So the opening tag of B's
//     block is in a string of A.
//   - B's first quote ends that string of A, and begins a string of B. Each later quote also ends a
//     string of one value and begins a string of the other. No quote is escaped: its backslash
//     would be outside the strings of one value.
//   - So the tag in B's string is outside the strings of A, and its < broke A. But we supposed
//     that A broke after this tag: a contradiction.
type useToolReader struct {
	json      wirejson.Lexer
	tag       int        // the offset of the last < if no > has come after it; 0: there is no such <
	brokenEnd readResult // where the block ends if the current JSON value is broken: at the first tag in its strings that can end a block
}

// read implements blockReader.
func (r *useToolReader) read(block []byte, from int) readResult {
	for i := from; i < len(block); i++ {
		switch r.json.Step(block[i]) {
		case wirejson.EndOfJSON:
			// Tags that are in the value's strings, or begin there, are data.
			r.tag, r.brokenEnd = 0, readResult{}
		case wirejson.BrokenJSON:
			if r.brokenEnd.state != BlockOpen {
				r.brokenEnd.bytesRead = i + 1
				return r.brokenEnd
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
	return readResult{bytesRead: len(block)}
}

// endTag reads the tag at the end of block, and returns the result if the tag ends the block. A tag
// in a JSON value may be data, so its result is only kept in brokenEnd.
func (r *useToolReader) endTag(block []byte) (e readResult) {
	start, tag := r.tag, block[r.tag:]
	r.tag = 0
	switch {
	case string(tag) == usetool.Closer:
		e = readResult{state: BlockComplete, offset: len(block), bytesRead: len(block)}
	case string(tag) == usetool.ArgsOpener:
		if !r.json.Active() {
			r.json.Begin()
		}
	case !isSelfClosed(tag):
		if size, _ := usetool.Opener(tag); size > 0 {
			e = readResult{state: blockNested, offset: start, bytesRead: start}
		}
	}
	if !r.json.Active() {
		return e
	}
	if r.brokenEnd.state == BlockOpen {
		r.brokenEnd = e
	}
	return readResult{}
}

// finish implements blockReader.
func (r *useToolReader) finish() readResult {
	if r.brokenEnd.state != BlockOpen {
		return r.brokenEnd
	}
	return readResult{offset: r.tag}
}
