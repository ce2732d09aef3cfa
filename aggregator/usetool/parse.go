package usetool

import (
	"errors"
	"strings"
)

const (
	blockTag    = "use_tool"
	blockOpener = "<" + blockTag
	blockCloser = "</" + blockTag + ">"
	nameOpener  = "<name>"
	nameCloser  = "</name>"
	argsOpener  = "<args>"
	argsCloser  = "</args>"
	emptyObject = "{}"
)

// maxNameBytes bounds the name of a tool. Codex allows names of 128 characters.
const maxNameBytes = 4 << 10

// Why a <use_tool> text is not a call. They are the errors of parseBlock.
var (
	errNoBlock    = errors.New("usetool: not a whole <use_tool> block")
	errNoName     = errors.New("usetool: the block has no <name>")
	errEmptyName  = errors.New("usetool: the <name> of the block is empty")
	errMarkupName = errors.New("usetool: the <name> of the block holds markup")
	errLongName   = errors.New("usetool: the <name> of the block is too long")
	errOpenArgs   = errors.New("usetool: the <args> of the block has no end")
)

// parseBlock reads one whole <use_tool …>…</use_tool> text. Attributes of the
// opener are ignored. The arguments are the text between <args> and </args>,
// as it stands, or a JSON object made of one member per parameter tag. A block
// without parameters has the arguments {}.
func parseBlock(block string) (name, argsJSON string, err error) {
	body, ok := blockBody(block)
	if !ok {
		return "", "", errNoBlock
	}
	name, rest, err := cutName(body)
	if err != nil {
		return "", "", err
	}
	if args, ok := argsForm(rest); ok {
		return name, args, nil
	}
	if strings.HasPrefix(strings.TrimSpace(rest), argsOpener) && !strings.Contains(rest, argsCloser) {
		// Without its arguments the call would be another one.
		return "", "", errOpenArgs
	}
	return name, parameterObject(rest), nil
}

// blockBody cuts the opener and the closer off a block.
func blockBody(block string) (body string, ok bool) {
	block = strings.TrimSpace(block)
	end := openerEnd(block)
	if end < 0 || !strings.HasSuffix(block, blockCloser) || len(block)-len(blockCloser) < end {
		return "", false
	}
	return block[end : len(block)-len(blockCloser)], true
}

// openerEnd returns the offset behind the opener with which text begins, or -1
// if it begins with none: <use_tool>, or <use_tool and white space and
// attributes up to the next '>'. <use_tools> and the self-closing <use_tool/>
// open nothing.
func openerEnd(text string) int {
	if !strings.HasPrefix(text, blockOpener) {
		return -1
	}
	rest := text[len(blockOpener):]
	if rest == "" || !strings.ContainsRune("> \t\r\n", rune(rest[0])) {
		return -1
	}
	end := strings.IndexByte(rest, '>')
	if end < 0 || strings.HasSuffix(rest[:end], "/") {
		return -1
	}
	return len(blockOpener) + end + 1
}

// cutName removes the first <name>…</name> from a body. If the body begins with <args>, the
// name is after that element: a <name> in the JSON is data.
func cutName(body string) (name, rest string, err error) {
	from := 0
	if strings.HasPrefix(strings.TrimSpace(body), argsOpener) {
		if last := strings.LastIndex(body, argsCloser); last >= 0 {
			from = last
		}
	}
	start := strings.Index(body[from:], nameOpener)
	if start < 0 {
		return "", "", errNoName
	}
	start += from
	inner := start + len(nameOpener)
	length := strings.Index(body[inner:], nameCloser)
	if length < 0 {
		return "", "", errNoName
	}
	name = strings.TrimSpace(body[inner : inner+length])
	switch {
	case name == "":
		return "", "", errEmptyName
	case strings.ContainsAny(name, "<>"):
		return "", "", errMarkupName
	case len(name) > maxNameBytes:
		return "", "", errLongName
	}
	return name, body[:start] + body[inner+length+len(nameCloser):], nil
}

// argsForm returns the JSON text of a block whose only parameter is <args>. The
// element reaches to the last </args>, since the JSON may hold that text in a
// string.
func argsForm(rest string) (args string, ok bool) {
	rest = strings.TrimSpace(rest)
	if !strings.HasPrefix(rest, argsOpener) || !strings.HasSuffix(rest, argsCloser) ||
		len(rest) < len(argsOpener)+len(argsCloser) {
		return "", false
	}
	args = strings.TrimSpace(rest[len(argsOpener) : len(rest)-len(argsCloser)])
	if args == "" {
		return emptyObject, true
	}
	return args, true
}
