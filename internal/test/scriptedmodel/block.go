package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// useToolBlock writes a call as text, in the form of Obsidian Copilot: a tag for
// each parameter, strings as they are, everything else as JSON. The arguments
// are a JSON object, whose order is kept.
func useToolBlock(name string, arguments []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(arguments))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", errors.New("want a JSON object of parameters")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<use_tool>\n<name>%s</name>\n", name)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", fmt.Errorf("read the parameters: %w", err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", fmt.Errorf("read the parameter %v: %w", key, err)
		}
		value := string(raw)
		if isString(raw) {
			if err := json.Unmarshal(raw, &value); err != nil {
				return "", fmt.Errorf("read the parameter %v: %w", key, err)
			}
		}
		fmt.Fprintf(&b, "<%s>%s</%s>\n", key, value, key)
	}
	if _, err := d.Token(); err != nil {
		return "", fmt.Errorf("read the parameters: %w", err)
	}
	b.WriteString("</use_tool>")
	return b.String(), nil
}

// textualTools are the tools that the demo model can call in a block: with the
// schemas that their parameters are made up from.
var textualTools = []struct{ name, parameters string }{
	{"localSearch", `{"required":["query","salientTerms"],"properties":{"query":{"type":"string"},"salientTerms":{"type":"array","items":{"type":"string"}}}}`},
	{"webSearch", `{"required":["query","chatHistory"],"properties":{"query":{"type":"string"},"chatHistory":{"enum":[[]]}}}`},
	{"readNote", `{"required":["notePath"],"properties":{"notePath":{"type":"string"}}}`},
	{"writeToFile", `{"required":["path","content"],"properties":{"path":{"type":"string"},"content":{"type":"string"}}}`},
	{"getCurrentTime", `{"type":"object"}`},
	{"getFileTree", `{"type":"object"}`},
}

var blockNamePattern = regexp.MustCompile(`<name>\s*([A-Za-z0-9_-]{1,64})\s*</name>`)

// speaksOfBlocks reports whether instructions teach the model to call tools by
// textual blocks.
func speaksOfBlocks(instructions string) bool {
	return strings.Contains(instructions, "<use_tool>")
}

// demoBlock answers a question with a block for a tool that the instructions
// name, if one fits.
func demoBlock(instructions, question string) (text string, ok bool) {
	names := namedTools(instructions)
	i := bestTool(question, names)
	if i < 0 {
		return "", false
	}
	parameters := `{"required":["query"],"properties":{"query":{"type":"string"}}}`
	for _, t := range textualTools {
		if t.name == names[i] {
			parameters = t.parameters
		}
	}
	block, err := useToolBlock(names[i], fill([]byte(parameters), question))
	if err != nil {
		return "", false
	}
	return "Let me use " + names[i] + ".\n\n" + block, true
}

// namedTools returns the names of the tools in instructions: the known ones, and
// those in the blocks that serve as examples.
func namedTools(instructions string) []string {
	var names []string
	for _, t := range textualTools {
		if strings.Contains(instructions, t.name) {
			names = append(names, t.name)
		}
	}
	for _, m := range blockNamePattern.FindAllStringSubmatch(instructions, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
