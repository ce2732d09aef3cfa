package aggregator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ToolCallPattern is the usual name of [ToolCall].
const ToolCallPattern = "tool_call"

const (
	toolCallOpener = "<tool_call>"
	toolCallCloser = "</tool_call>"
)

var errToolCallName = errors.New("aggregator: the <tool_call> block has no name")

// ToolCall is the Pattern of the <tool_call> blocks that many models write (Hermes, Qwen and
// others):
//
//	<tool_call>
//	{"name": "readNote", "arguments": {"path": "a.md"}}
//	</tool_call>
//
// Between the tags is one JSON object with a name and arguments. The arguments are an object, which
// stays as the model wrote it, or a string that contains an object. Missing arguments are {}. An id
// and a type are ignored. A block with any other member is not a call: the call would lose that
// member. Tags inside of strings are part of the strings.
type ToolCall struct{}

// Opener returns <tool_call>.
func (ToolCall) Opener() string { return toolCallOpener }

// Begin returns a reader that reads one JSON object and the closing tag. The first
// byte that does not fit ends the block as BlockBroken, so that no more text is held
// than is needed.
func (ToolCall) Begin() BlockReader {
	r := &toolCallReader{}
	r.json.Begin()
	return r
}

// toolCallReader reads a <tool_call> block.
type toolCallReader struct {
	json  wirejson.Lexer
	ended bool // the object is complete
	tag   int  // bytes of the closing tag that were seen
}

// Next implements BlockReader.
func (r *toolCallReader) Next(b byte) BlockState {
	space := b == ' ' || b == '\t' || b == '\n' || b == '\r'
	switch {
	case r.ended && r.tag == 0 && space:
	case r.ended && b != toolCallCloser[r.tag]:
		return BlockBroken
	case r.ended:
		if r.tag++; r.tag == len(toolCallCloser) {
			return BlockComplete
		}
	case !r.json.Active() && b != '{' && !space:
		return BlockBroken
	default:
		verdict := r.json.Step(b)
		if verdict == wirejson.BrokenJSON {
			return BlockBroken
		}
		r.ended = verdict == wirejson.EndOfJSON
	}
	return BlockOpen
}

// Parse returns the name and the arguments of a block.
func (ToolCall) Parse(block string) (name, arguments string, err error) {
	block = strings.TrimSuffix(strings.TrimPrefix(block, toolCallOpener), toolCallCloser)
	object, ok := wirejson.Valid([]byte(block))
	if !ok || !wirejson.IsObject(object) {
		return "", "", errors.New("aggregator: the <tool_call> block is not JSON")
	}
	arguments = "{}"
	for w := wirejson.Walk(object); w.Next(); {
		switch w.Key {
		case "name":
			text, ok := wirejson.AsString(w.Value)
			if !ok {
				return "", "", errToolCallName
			}
			name = strings.TrimSpace(text.String())
		case "arguments":
			if arguments = w.Value; arguments[0] == '"' {
				text, _ := wirejson.AsString(arguments)
				arguments = strings.TrimSpace(text.String())
			}
		case "id", "type":
		default:
			return "", "", fmt.Errorf("aggregator: the <tool_call> block has a member %.64q", w.Key)
		}
	}
	switch {
	case name == "":
		return "", "", errToolCallName
	case arguments == "null" || arguments == "":
		arguments = "{}"
	case !wirejson.IsObject(arguments):
		return "", "", errors.New("aggregator: the arguments of the <tool_call> block are no object")
	}
	return name, arguments, nil
}
