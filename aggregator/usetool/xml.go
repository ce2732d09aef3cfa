package usetool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ErrToolName is for a name that cannot be written: empty, with markup, or with white space around it.
var ErrToolName = errors.New("usetool: the name of the tool cannot stand in a block")

// ErrParameter is the error for a call with an argument whose name cannot be a tag. Leaving the
// argument out would change what the call does.
var ErrParameter = errors.New("usetool: the name of a parameter cannot stand in a block")

// Escaping is the way text is written in a block. The zero value means EscapeLiteral.
type Escaping string

const (
	// EscapeLiteral, the default, writes text as it is: Obsidian Copilot decodes nothing. Only
	// closing tags that would end the parameter or the block, or match an opening tag in the text,
	// get a space before their '>': there is no other way.
	EscapeLiteral Escaping = "literal"
	// EscapeEntities writes &, < and > as &amp;, &lt; and &gt;, for readers that decode them.
	EscapeEntities Escaping = "entities"
)

// RenderXML writes the call of a tool as the <use_tool> block that Obsidian Copilot reads: the
// name, then a tag for each parameter that [Shape] returns, in the same order.
//
//	<use_tool>
//	<name>localSearch</name>
//	<query>planning & review</query>
//	<salientTerms>["planning","review"]</salientTerms>
//	</use_tool>
//
// Null parameters are left out, although Shape returns them. Strings are written by the Escaping, arrays
// and objects as compact JSON with <, > and & as \u003c, \u003e and \u0026, other values as they are.
//
// In these cases RenderXML returns no block, and its error wraps
//   - [ErrToolName]: the name of the tool cannot be written;
//   - [ErrArguments]: the arguments are not a JSON object;
//   - [ErrParameter]: the name of a parameter is empty or use_tool, or contains white space or one
//     of <>/&"'=.
func RenderXML(name, arguments string, escaping Escaping) (string, error) {
	if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, "<>") {
		return "", fmt.Errorf("rendering a call of %q: %w", name, ErrToolName)
	}
	params, err := Shape(name, arguments)
	if err != nil {
		return "", fmt.Errorf("rendering a call of %q: %w", name, err)
	}
	var out strings.Builder
	out.WriteString(blockOpener + ">\n" + nameOpener)
	out.WriteString(escaping.text(name, "name"))
	out.WriteString(nameCloser + "\n")
	for _, p := range params {
		if p.Value == "null" {
			continue
		}
		if p.Name == "" || p.Name == blockTag || strings.ContainsAny(p.Name, " \t\r\n\f\v<>/&\"'=") { // it cannot be a tag
			return "", fmt.Errorf("rendering a call of %q: %w", name, ErrParameter)
		}
		out.WriteString("<" + p.Name + ">")
		if text, isString := wirejson.Value(wirejson.View(p.Value)).AsText(); isString {
			out.WriteString(escaping.text(text, p.Name))
		} else {
			out.WriteString(compactJSON(p.Value))
		}
		out.WriteString("</" + p.Name + ">\n")
	}
	out.WriteString(Closer)
	return out.String(), nil
}

// maxCloserSpaces bounds the spaces that spaceClosers adds to a tag, and so a text's size. A tag that would
// need more spaces gets so many, and the client still reads it as a closing tag.
const maxCloserSpaces = 16

// text writes a string that stands between an opening and a closing tag with this name.
func (e Escaping) text(text, name string) string {
	if e == EscapeEntities {
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	}
	return spaceClosers(text, name)
}

// compactJSON writes JSON without white space, and escapes <, > and &, since clients read tags as markup.
func compactJSON(value string) string {
	compact, _ := json.Marshal(json.RawMessage(value)) // escapes <, > and &; the value is valid JSON
	return string(compact)
}

// spaceClosers adds a space to the closing tags of a text that for the client would end the parameter, the
// block, or an earlier opening tag of the text: for the client, </b > does not end <b>. If the text also
// has a <b >, the closing tag gets two spaces, and so on.
func spaceClosers(text, name string) string {
	opened := map[string]bool{name: true, blockTag: true}
	var out strings.Builder
	copied := 0
	for _, t := range tagsOf(text) {
		if !t.closer {
			opened[t.name] = true
			continue
		}
		if !opened[t.name] {
			continue
		}
		spaces := " "
		for opened[t.name+spaces] && len(spaces) < maxCloserSpaces {
			spaces += " "
		}
		out.WriteString(text[copied : t.end-1])
		out.WriteString(spaces)
		copied = t.end - 1
	}
	out.WriteString(text[copied:])
	return out.String()
}
