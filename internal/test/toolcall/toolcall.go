// Package toolcall is an example of a textual form of tool calls that is not built in: the
// <tool_call> blocks that Hermes, Qwen and other models write. A plugin makes it a Caddy module:
//
//	func init() { caddy.RegisterModule(Hermes{}) }
//
//	type Hermes struct{ toolcall.Pattern }
//
//	func (Hermes) CaddyModule() caddy.ModuleInfo {
//		return caddy.ModuleInfo{ID: "http.codex.patterns.hermes", New: func() caddy.Module { return new(Hermes) }}
//	}
package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
)

// The tags of a block.
const (
	Opener = "<tool_call>"
	Closer = "</tool_call>"
)

// Pattern is the aggregator.Pattern of
//
//	<tool_call>
//	{"name": "readNote", "arguments": {"path": "a.md"}}
//	</tool_call>
//
// Between the tags is one JSON object with a name and arguments. The arguments are an object, which
// stays as the model wrote it, or a string that contains an object. Missing arguments are {}. An id
// and a type are ignored. A block with any other member is not a call: the call would lose that
// member. Tags inside of strings are part of the strings.
type Pattern struct{}

// Opener returns <tool_call>.
func (Pattern) Opener() string { return Opener }

// Begin returns a reader that reads one object and the closing tag. The first byte that cannot be
// part of them breaks the block, so that no more text is held than is needed.
func (Pattern) Begin() aggregator.BlockReader { return new(reader) }

// reader reads a block.
type reader struct {
	depth    int  // of the objects and lists that are open
	inString bool // within a string of the object
	escaped  bool // after a backslash in a string
	ended    bool // the object is complete
	tag      int  // bytes of the closing tag that were seen
}

// Next implements aggregator.BlockReader.
func (r *reader) Next(b byte) aggregator.BlockState {
	isSpace := b == ' ' || b == '\t' || b == '\n' || b == '\r'
	switch {
	case r.inString && b < ' ':
		return aggregator.BlockBroken
	case r.inString:
		r.inString = r.escaped || b != '"'
		r.escaped = !r.escaped && b == '\\'
	case isSpace && r.tag == 0:
	case r.ended && b != Closer[r.tag]:
		return aggregator.BlockBroken
	case r.ended:
		if r.tag++; r.tag == len(Closer) {
			return aggregator.BlockComplete
		}
	case b == '{' || b == '[' && r.depth > 0:
		r.depth++
	case r.depth == 0 || b == '<':
		return aggregator.BlockBroken
	case b == '"':
		r.inString = true
	case b == '}' || b == ']':
		r.depth--
		r.ended = r.depth == 0
	}
	return aggregator.BlockOpen
}

// Parse returns the name and the arguments of a block.
func (Pattern) Parse(block string) (name, arguments string, err error) {
	var members map[string]json.RawMessage
	object := strings.TrimSuffix(strings.TrimPrefix(block, Opener), Closer)
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		return "", "", fmt.Errorf("toolcall: %w", err)
	}
	for member := range members {
		if !strings.Contains(" name arguments id type ", " "+member+" ") {
			return "", "", fmt.Errorf("toolcall: the block has a member %.64q", member)
		}
	}
	if json.Unmarshal(members["name"], &name) != nil || strings.TrimSpace(name) == "" {
		return "", "", errors.New("toolcall: the block has no name")
	}
	if json.Unmarshal(members["arguments"], &arguments) != nil {
		arguments = string(members["arguments"])
	}
	if arguments = strings.TrimSpace(arguments); arguments == "" || arguments == "null" {
		arguments = "{}"
	}
	var isObject map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &isObject) != nil {
		return "", "", errors.New("toolcall: the arguments are no object")
	}
	return strings.TrimSpace(name), arguments, nil
}
