package usetool

import "strings"

// Runs counts the blocks of a text that Obsidian Copilot runs. Such a block begins with a
// <use_tool> without attributes and has a name. It ends with the next </use_tool>, even inside a
// JSON string, or at the end of the text. A Scanner may find other calls, since it skips a
// </use_tool> inside a JSON string. The zero value is at the beginning of a text. A copy of a Runs
// reads on independently.
type Runs struct {
	closed  int  // blocks that ended
	open    bool // a block is open
	name    nameState
	letters int               // bytes of the name, and of the tag after it, that are not white space
	seen    [len(Closer)]byte // the last bytes
}

// nameState says how much of the open block's name was read.
type nameState uint8

const (
	nameMissing nameState = iota
	nameBegun
	nameGiven
	nameEmpty // the block is not run
)

// Count returns how many blocks of the text so far the client runs.
func (r *Runs) Count() int {
	if r.open && r.name == nameGiven {
		return r.closed + 1
	}
	return r.closed
}

// Open reports whether a block is open, so that more text may belong to it.
func (r *Runs) Open() bool { return r.open }

// Read reads the next piece of the text, and returns the number of bytes read. It stops before the
// byte that would raise Count above the parameter most.
func (r *Runs) Read(text string, most int) int {
	for i := range len(text) {
		next := *r
		if next.step(text[i]); next.Count() > most {
			return i
		}
		*r = next
	}
	return len(text)
}

// ReadOpen reads the next piece of the text as Read does, but only up to the end of the open block.
// It reads nothing if no block is open. If it stops at the limit, it returns the number of bytes
// read. Otherwise it returns the length of text, even if the block ended earlier.
func (r *Runs) ReadOpen(text string, most int) int {
	for i := 0; i < len(text) && r.open; i++ {
		if r.Read(text[i:i+1], most) == 0 {
			return i
		}
	}
	return len(text)
}

// Made counts one block for a call that is rendered as a block of its own. It first ends the block
// that is open.
func (r *Runs) Made() {
	r.end()
	r.closed++
}

// end ends the open block.
func (r *Runs) end() {
	r.closed = r.Count()
	*r = Runs{closed: r.closed}
}

func (r *Runs) step(b byte) {
	copy(r.seen[:], r.seen[1:])
	r.seen[len(r.seen)-1] = b
	if r.name == nameBegun && !isSpace(b) {
		r.letters++
	}
	switch {
	case b != '>':
	case !r.open:
		r.open = r.ends(blockOpener + ">")
	case r.ends(Closer):
		r.end()
	case r.name == nameMissing && r.ends(nameOpener):
		r.name, r.letters = nameBegun, 0
	case r.name == nameBegun && r.ends(nameCloser):
		if r.name = nameGiven; r.letters == len(nameCloser) {
			r.name = nameEmpty
		}
	}
}

// ends reports whether the text so far ends with a tag.
func (r *Runs) ends(tag string) bool { return string(r.seen[len(r.seen)-len(tag):]) == tag }

func isSpace(b byte) bool { return strings.IndexByte(" \t\r\n\f\v", b) >= 0 }
