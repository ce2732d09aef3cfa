package usetool

import "strings"

// Runs counts the blocks of a text that Obsidian Copilot runs. Such a block has a name, and goes from a
// <use_tool> without attributes to the next </use_tool> or to the end of the text. Unlike in a Scanner, a
// </use_tool> in a JSON string ends the block. The zero value begins a text. A copy reads on independently.
type Runs struct {
	closedBlocks int  // blocks that have ended and that the client runs
	open         bool // a block is open
	nameState    nameState
	nameBytes    int               // how many bytes of the name and of the </name> after it are not white space
	lastBytes    [len(Closer)]byte // the last bytes that were read
}

// nameState says how much of the open block's name was read.
type nameState uint8

const (
	nameMissing nameState = iota
	nameBegun
	nameGiven
	nameEmpty // the name is empty: the client does not run the block
)

// Count returns how many blocks of the text so far the client runs.
func (r *Runs) Count() int {
	if r.open && r.nameState == nameGiven {
		return r.closedBlocks + 1
	}
	return r.closedBlocks
}

// Open reports whether a block is open, so that more text may belong to it.
func (r *Runs) Open() bool { return r.open }

// Read reads the next piece up to the byte that would raise Count above limit, and returns the
// number of bytes read.
func (r *Runs) Read(text string, limit int) int {
	for i := range len(text) {
		next := *r
		if next.step(text[i]); next.Count() > limit {
			return i
		}
		*r = next
	}
	return len(text)
}

// ReadOpen is Read up to the end of the open block; if no block is open, it reads nothing. If it stops at
// the limit, it returns the number of bytes read, otherwise the length of text, even if the block ended
// earlier.
func (r *Runs) ReadOpen(text string, limit int) int {
	for i := 0; i < len(text) && r.open; i++ {
		if r.Read(text[i:i+1], limit) == 0 {
			return i
		}
	}
	return len(text)
}

// Made counts a call that the client gets as a new block. A block that is open ends before it.
func (r *Runs) Made() {
	r.endBlock()
	r.closedBlocks++
}

func (r *Runs) endBlock() {
	r.closedBlocks = r.Count()
	*r = Runs{closedBlocks: r.closedBlocks}
}

// step reads the next byte.
func (r *Runs) step(b byte) {
	copy(r.lastBytes[:], r.lastBytes[1:])
	r.lastBytes[len(r.lastBytes)-1] = b
	if r.nameState == nameBegun && strings.IndexByte(" \t\r\n\f\v", b) < 0 {
		r.nameBytes++
	}
	switch {
	case b != '>':
	case !r.open:
		r.open = r.endsWith(blockOpener + ">")
	case r.endsWith(Closer):
		r.endBlock()
	case r.nameState == nameMissing && r.endsWith(nameOpener):
		r.nameState, r.nameBytes = nameBegun, 0
	case r.nameState == nameBegun && r.endsWith(nameCloser):
		if r.nameState = nameGiven; r.nameBytes == len(nameCloser) { // only </name> itself
			r.nameState = nameEmpty
		}
	}
}

func (r *Runs) endsWith(tag string) bool {
	return string(r.lastBytes[len(r.lastBytes)-len(tag):]) == tag
}
