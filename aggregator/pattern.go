package aggregator

import (
	"errors"
	"fmt"
	"sort"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// UseToolPattern is the name of the built-in text pattern, the <use_tool> block.
const UseToolPattern = "use_tool"

// ErrPattern says that a text pattern cannot be registered: it has no name or no
// matcher, or the name of the built-in one.
var ErrPattern = errors.New("aggregator: invalid text pattern")

// Block is a call found in text (story 2.8, AC 6).
type Block struct {
	// Start and End are byte offsets: text[Start:End] is the block. What follows
	// End is the tail that a handler may suppress.
	Start, End int
	// Name is the name of the tool.
	Name string
	// Arguments is the JSON text of the arguments.
	Arguments string
	// Pattern is the name of the pattern that found the block.
	Pattern string
}

// Matcher finds the blocks of one textual form in a text. It need not set Pattern.
// It must depend on nothing but the text, may be called from several goroutines at
// once, and must not call the Aggregator.
type Matcher func(text string) []Block

// textPattern is a registered Matcher.
type textPattern struct {
	name  string
	match Matcher
}

// RegisterTextPattern adds a textual form of calls, or replaces the one of that
// name. It holds for ExtractBlocks and for SynthesizeCalls, from now on and over
// ResetTurn. The built-in pattern stays as it is. The error is ErrPattern.
func (a *Aggregator) RegisterTextPattern(name string, match Matcher) error {
	if name == "" || name == UseToolPattern || match == nil {
		return fmt.Errorf("registering %q: %w", name, ErrPattern)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	next := make([]textPattern, 0, len(a.patterns)+1)
	replaced := false
	for _, p := range a.patterns {
		if p.name == name {
			p.match, replaced = match, true
		}
		next = append(next, p)
	}
	if !replaced {
		next = append(next, textPattern{name: name, match: match})
	}
	a.patterns = next
	return nil
}

// ExtractBlocks returns the complete blocks in a text, by every registered
// pattern, in order. Where blocks overlap, the one that begins first counts, of
// those that begin together the one whose pattern was registered first. It
// changes no calls: only IngestMessage with SynthesizeCalls does.
func (a *Aggregator) ExtractBlocks(text string) []Block {
	a.mu.Lock()
	patterns := a.patterns
	a.mu.Unlock()
	blocks, broken := extract(patterns, text)
	if broken > 0 {
		a.mu.Lock()
		a.stats.Malformed += broken
		a.mu.Unlock()
	}
	return blocks
}

// blocks is ExtractBlocks for a caller that holds the lock.
func (a *Aggregator) blocks(text string) []Block {
	blocks, broken := extract(a.patterns, text)
	a.stats.Malformed += broken
	return blocks
}

// extract runs patterns over a text. It drops blocks that are not in the text or
// have no name, and counts them.
func extract(patterns []textPattern, text string) (blocks []Block, broken uint64) {
	var found []Block
	for _, p := range patterns {
		for _, b := range p.match(text) {
			if b.Start < 0 || b.End > len(text) || b.Start >= b.End || b.Name == "" {
				broken++
				continue
			}
			b.Pattern = p.name
			found = append(found, b)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Start < found[j].Start })
	end := 0
	for _, b := range found {
		if b.Start >= end {
			blocks = append(blocks, b)
			end = b.End
		}
	}
	return blocks, broken
}

// UseToolBlocks is the built-in Matcher: [usetool.Blocks].
func UseToolBlocks(text string) []Block {
	var blocks []Block
	for _, b := range usetool.Blocks(text) {
		blocks = append(blocks, Block{
			Start: b.Start, End: b.End, Name: b.Name, Arguments: b.Arguments, Pattern: UseToolPattern,
		})
	}
	return blocks
}
