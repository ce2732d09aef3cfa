package usetool

// Block is a call found in a text.
type Block struct {
	// Start and End are byte offsets: text[Start:End] is the block.
	Start, End int
	// Name is the name of the tool.
	Name string
	// Arguments is the JSON text of the arguments.
	Arguments string
}

// Blocks returns the complete, well-formed <use_tool>…</use_tool> blocks of a whole
// text, in order: the same that a Scanner finds in it, however long they are.
// Arguments is the text of <args>, or a JSON object of the parameter tags.
func Blocks(text string) []Block {
	scanner := NewScanner(ScannerOptions{MaxBlock: len(text) + 1})
	segments := scanner.Finish(AbortUnclosed, scanner.Feed(text, nil))
	var blocks []Block
	for _, s := range segments {
		if s.Kind == SegmentBlock {
			start := int(s.Offset)
			blocks = append(blocks, Block{Start: start, End: start + len(s.Text), Name: s.Name, Arguments: s.Arguments})
		}
	}
	return blocks
}
