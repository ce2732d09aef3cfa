package aggregator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// UseToolPattern is the name of the built-in textual form, the <use_tool> block.
const UseToolPattern = "use_tool"

// MaxOpener is the size of the longest opener of a Pattern, in bytes.
const MaxOpener = 64

// ErrPattern is the error for a text pattern that cannot be used because of its name or its opener.
var ErrPattern = errors.New("aggregator: invalid text pattern")

// Pattern is a textual form of tool calls, which a model writes instead of structured calls: blocks
// that begin with a fixed opener. A [Scanner] searches the text for the opener, finds the end of
// the block with a BlockReader, and calls Parse to read the call.
//
// A block reader gets every byte of a block once and in order, up to the largest block, so the text may be
// cut anywhere. If Next takes a bounded time, the search takes a time linear in the text's length.
//
// The methods may be called from several goroutines at once.
type Pattern interface {
	// Opener returns the text, always the same, that begins a block: 1 to [MaxOpener] UTF-8 bytes.
	Opener() string
	// Begin returns a reader for a block whose opener has just been seen.
	Begin() BlockReader
	// Parse returns the call in a complete block, from its opener to the byte of BlockComplete: the
	// tool's name, and its arguments as JSON text. With an error, the block is text.
	Parse(block string) (name, arguments string, err error)
}

// BlockReader finds the end of one block. It is used by one goroutine at a time.
type BlockReader interface {
	// Next reads and classifies the next byte of the block. The first byte is the one after the
	// opener. After a result other than BlockOpen, Next is not called again.
	Next(b byte) BlockState
}

// BlockState is the meaning of a byte for a [BlockReader].
type BlockState uint8

const (
	// BlockOpen: the byte belongs to the block, which goes on.
	BlockOpen BlockState = iota
	// BlockComplete: the byte is the last one of the block.
	BlockComplete
	// BlockBroken: with this byte the text cannot be a block. The bytes read so far become text.
	// Only the end of these bytes is searched again: a new opener may begin there.
	BlockBroken
)

// NamedPattern is a Pattern with its name, which is in the field Pattern of blocks and segments.
type NamedPattern struct {
	Name    string
	Pattern Pattern
}

type patternReader struct{ BlockReader }

// read implements blockReader.
func (r patternReader) read(block []byte, from int) readResult {
	for i := from; i < len(block); i++ {
		switch state := r.Next(block[i]); state {
		case BlockOpen:
		case BlockComplete:
			return readResult{state: state, offset: i + 1, bytesRead: i + 1}
		default:
			return readResult{state: BlockBroken, offset: 1, bytesRead: i + 1}
		}
	}
	return readResult{bytesRead: len(block)}
}

// finish implements blockReader.
func (patternReader) finish() readResult { return readResult{offset: 1} }

// validate returns an error that wraps ErrPattern if the pattern is unusable, alone or beside the others.
func (p NamedPattern) validate(others []NamedPattern) error {
	opener, problem := "", ""
	if p.Pattern != nil {
		opener = p.Pattern.Opener()
	}
	switch {
	case p.Name == "":
		problem = "it has no name"
	case p.Name == UseToolPattern, slices.ContainsFunc(others, func(o NamedPattern) bool { return o.Name == p.Name }):
		problem = "the name is taken"
	case p.Pattern == nil:
		problem = "it is nil"
	case opener == "":
		problem = "its opener is empty"
	case len(opener) > MaxOpener:
		problem = fmt.Sprintf("its opener is longer than %d bytes", MaxOpener)
	case !utf8.ValidString(opener):
		problem = "its opener is not UTF-8"
	default:
		return nil
	}
	return fmt.Errorf("%w %q: %s", ErrPattern, p.Name, problem)
}

// CheckPatterns returns an error that wraps ErrPattern if the patterns cannot be used together.
func CheckPatterns(patterns []NamedPattern) error {
	for i, p := range patterns {
		if err := p.validate(patterns[:i]); err != nil {
			return err
		}
	}
	return nil
}

// Block is a call found in text.
type Block struct {
	Start, End int    // byte offsets: text[Start:End] is the block
	Name       string // of the tool
	Arguments  string // JSON text
	Pattern    string // the name of the pattern that found the block
}

// RegisterTextPattern adds a textual form of calls for ExtractBlocks and SynthesizeCalls. It
// replaces an earlier form with this name. Its errors wrap ErrPattern.
func (a *Aggregator) RegisterTextPattern(name string, pattern Pattern) error {
	added := NamedPattern{Name: name, Pattern: pattern}
	if err := added.validate(nil); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	next := slices.Clone(a.patterns)
	if i := slices.IndexFunc(next, func(p NamedPattern) bool { return p.Name == name }); i >= 0 {
		next[i] = added
	} else {
		next = append(next, added)
	}
	a.patterns = next
	return nil
}

// ExtractBlocks returns the complete blocks of <use_tool> and registered patterns in a text, in order. It
// does not limit their size, as a Scanner does with MaxBlock. It does not change the Aggregator's calls.
func (a *Aggregator) ExtractBlocks(text string) []Block {
	a.mu.Lock()
	patterns := a.patterns
	a.mu.Unlock()
	return extract(patterns, text)
}

func extract(patterns []NamedPattern, text string) []Block {
	scanner := NewScanner(ScannerOptions{Patterns: patterns, MaxBlock: len(text) + 1})
	segments := scanner.Finish(usetool.AbortUnclosed, scanner.Feed(text, nil))
	var blocks []Block
	for _, s := range segments {
		if s.Kind != usetool.SegmentBlock {
			continue
		}
		start := int(s.Offset)
		blocks = append(blocks, Block{
			Start: start, End: start + len(s.Text), Name: s.Name, Arguments: strings.Clone(s.Arguments),
			Pattern: cmp.Or(s.Pattern, UseToolPattern),
		})
	}
	return blocks
}
