package usetool

import (
	"bytes"
	"errors"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	blockTag    = "use_tool"
	blockOpener = "<" + blockTag
	nameOpener  = "<name>"
	nameCloser  = "</name>"
	argsCloser  = "</args>"

	// Closer is the closing tag of a block.
	Closer = "</" + blockTag + ">"
	// ArgsOpener is the tag before arguments in JSON.
	ArgsOpener = "<args>"
)

// MaxOpener bounds an opening tag with its attributes, in bytes, and so what is held where a
// sentence mentions "<use_tool". No known client uses attributes.
const MaxOpener = 256

// maxNameBytes bounds the name of a tool. Codex allows names of 128 characters.
const maxNameBytes = 4 << 10

// The errors of Parse: why a <use_tool> text is not a call.
var (
	errNoBlock    = errors.New("usetool: not a whole <use_tool> block")
	errNoName     = errors.New("usetool: the block has no <name>")
	errEmptyName  = errors.New("usetool: the <name> of the block is empty")
	errMarkupName = errors.New("usetool: the <name> of the block holds markup")
	errLongName   = errors.New("usetool: the <name> of the block is too long")
	errOpenArgs   = errors.New("usetool: the <args> of the block has no end")
)

// Parse reads one whole <use_tool …>…</use_tool> block, and ignores attributes of the opening tag. The
// arguments are the text between <args> and </args> if the block has only the name besides, else an object
// of the parameter tags ({} if there are none).
func Parse(block string) (name, argsJSON string, err error) {
	block = strings.TrimSpace(block)
	size, _ := Opener(wirejson.View(block))
	if size == 0 || block[size-2] == '/' || !strings.HasSuffix(block[size:], Closer) {
		return "", "", errNoBlock
	}
	name, rest, err := cutName(block[size : len(block)-len(Closer)])
	if err != nil {
		return "", "", err
	}
	if args, found := strings.CutPrefix(strings.TrimSpace(rest), ArgsOpener); found {
		// The element ends at the last </args>: the JSON may have an earlier </args> in a string.
		if text, last := strings.CutSuffix(args, argsCloser); last {
			if text = strings.TrimSpace(text); text == "" {
				text = "{}"
			}
			return name, text, nil
		}
		if !strings.Contains(args, argsCloser) {
			return "", "", errOpenArgs // without its arguments, the call would do something else
		}
	}
	m := readMarkup(rest)
	var object strings.Builder
	m.write(&object, "{}", m.unique(m.pairs(0, len(m.tags))), 0)
	return name, object.String(), nil
}

// Opener returns the size of the opening tag at the beginning of a text: <use_tool>, or <use_tool
// with white space and attributes up to the next '>'. Either may have a '/' before the '>'. If
// there is no such tag, more reports whether the text may become one.
func Opener(text []byte) (size int, more bool) {
	n := min(len(text), len(blockOpener))
	if string(text[:n]) != blockOpener[:n] {
		return 0, false
	}
	rest := text[n:min(len(text), MaxOpener)]
	if len(rest) == 0 {
		return 0, true
	}
	if rest[0] == '/' && len(rest) > 1 && rest[1] != '>' || strings.IndexByte("/> \t\r\n", rest[0]) < 0 {
		return 0, false // another tag, such as <use_tools>
	}
	end := bytes.IndexAny(rest, "<>")
	switch {
	case end < 0:
		return 0, len(text) < MaxOpener
	case rest[end] == '<':
		return 0, false
	}
	return n + end + 1, false
}

// IsProse reports whether a text that begins with an opening tag only mentions the tag: the first
// byte after the tag and white space is not '<'. It returns false if there is no such byte yet.
func IsProse(text string) bool {
	size, _ := Opener(wirejson.View(text))
	rest := strings.TrimLeft(text[size:min(len(text), size+maxIndent)], " \t\r\n")
	return rest != "" && rest[0] != '<'
}

// maxIndent bounds how much white space after an opening tag [IsProse] skips.
const maxIndent = 256

// cutName removes the first <name>…</name> of a body. If the body begins with <args>, the search begins
// at the last </args>, since the JSON before it is data.
func cutName(body string) (name, rest string, err error) {
	args := ""
	if strings.HasPrefix(strings.TrimSpace(body), ArgsOpener) {
		if last := strings.LastIndex(body, argsCloser); last >= 0 {
			args, body = body[:last], body[last:]
		}
	}
	before, inner, _ := strings.Cut(body, nameOpener)
	name, after, found := strings.Cut(inner, nameCloser) // without a <name>, inner is empty and has no closer
	switch name = strings.TrimSpace(name); {
	case !found:
		return "", "", errNoName
	case name == "":
		return "", "", errEmptyName
	case strings.ContainsAny(name, "<>"):
		return "", "", errMarkupName
	case len(name) > maxNameBytes:
		return "", "", errLongName
	}
	return name, args + before + after, nil
}
