package openai

import (
	"iter"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// role is who a message is from.
type role string

const (
	roleSystem    role = "system"
	roleDeveloper role = "developer"
	roleUser      role = "user"
	roleAssistant role = "assistant"
	roleTool      role = "tool"
	roleFunction  role = "function" // as tool, of clients that know functions only
	// roleItem is an item of the Responses API that goes to Codex as it is.
	roleItem role = "item"
)

// instructs reports whether the role gives instructions to the model.
func (r role) instructs() bool { return r == roleSystem || r == roleDeveloper }

// readRole spares the known roles a string of their own.
func readRole(v jsontext.Value) role {
	for _, known := range []role{roleUser, roleAssistant, roleTool, roleSystem, roleDeveloper, roleFunction} {
		if v.Is(string(known)) {
			return known
		}
	}
	return role(v.Text())
}

// message is one message of the conversation (ChatCompletionRequestMessage).
type message struct {
	role    role
	text    jsontext.Value // the content if it is a string, or else the refusal
	content []part         // the content if it is parts
	calls   []toolCall     // of an assistant
	callID  jsontext.Value // of a tool's result: the call that it answers
	item    jsontext.Value // of roleItem: the item itself
	phase   string         // of an assistant: commentary, final_answer, or empty
	size    int            // bytes of the message in the body
}

// parts are the parts of the content. A string is one text part; an assistant's
// content that is absent, null or empty has none.
func (m *message) parts() iter.Seq[part] {
	return func(yield func(part) bool) {
		if m.text != nil {
			yield(part{kind: partText, text: m.text})
			return
		}
		for _, p := range m.content {
			if !yield(p) {
				return
			}
		}
	}
}

// maxItems is how many elements a conversation may have: messages or items, the
// parts of their contents, and calls. Each takes up to a few hundred bytes here,
// however small it is in the body; conversations have thousands at most.
const maxItems = 100_000

func tooManyItems() *fault {
	return wrongValue("must hold at most %d elements, counting parts and calls", maxItems)
}

// count counts the elements of a message. The fault is that there are too many.
func (c *conversation) count(m *message) *fault {
	if c.elements += 1 + len(m.content) + len(m.calls); c.elements > maxItems {
		return tooManyItems()
	}
	return nil
}

// partKind says what a [part] is.
type partKind uint8

const (
	partText partKind = iota
	partImage
)

// part is one part of a message's content.
type part struct {
	kind   partKind
	remote bool           // the image is still to be fetched from its URL
	text   jsontext.Value // of a text: the JSON string
	url    jsontext.Value // of an image: the JSON string of its URL
	detail string         // of an image: auto, high, original; or empty
}

// noText is the content of a message that says nothing.
var noText = jsontext.Value(`""`)

// toolCall is a call that an assistant made (ChatCompletionMessageToolCall).
type toolCall struct {
	id        jsontext.Value
	name      string
	arguments jsontext.Value
	function  bool // it is a function_call, and its id is ours
}

// empty reports whether a message has no content.
func (m *message) empty() bool { return m.text == nil && m.content == nil }
