package prompt

import (
	"cmp"
	"iter"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Role is the author of a message.
type Role string

const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleFunction  Role = "function" // the same as tool, from clients that only know functions
	// RoleItem stands for an item of the Responses API that Codex gets as it is.
	RoleItem Role = "item"
	// RoleSealed stands for a summary that this server has sealed, see [Conversation.OpenSummaries].
	RoleSealed Role = "sealed"
)

func (r Role) isInstruction() bool { return r == RoleSystem || r == RoleDeveloper }

// ReadRole reads a role. For a known role, it allocates no memory.
func ReadRole(v wirejson.Value) Role {
	for _, known := range []Role{RoleUser, RoleAssistant, RoleTool, RoleSystem, RoleDeveloper, RoleFunction} {
		if v.Is(string(known)) {
			return known
		}
	}
	return Role(v.Text())
}

// Message is one message of the conversation (ChatCompletionRequestMessage in OpenAI's API).
type Message struct {
	Role    Role
	Text    wirejson.Value // the content if it is a string; if an assistant's message has no content: its refusal, if any
	Content []Part         // the content if it is a list of parts
	Calls   []Call         // the calls of an assistant
	CallID  wirejson.Value // the id of the call, if the message is a tool's result
	Item    wirejson.Value // the item, if the role is RoleItem; the JSON string of a sealed summary, if it is RoleSealed
	Phase   string         // of an assistant's message: commentary, final_answer, or empty
	Size    int            // how many bytes the message has in the request's body
}

// Parts iterates over the parts of the content. Content that is a string has one text part. Content
// that is absent, null or an empty list has no parts.
func (m *Message) Parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if m.Text != nil {
			yield(Part{Text: m.Text})
			return
		}
		for _, p := range m.Content {
			if !yield(p) {
				return
			}
		}
	}
}

// MaxItems is how many elements a conversation may have: messages or items, parts of their contents,
// and calls. Each may take a few hundred bytes. Real conversations have thousands at most.
const MaxItems = 100_000

// AllItems names the things that MaxItems counts, for the errors of [field.Elements].
const AllItems = "elements, counting parts and calls"

// TooManyItems returns the error for more than MaxItems elements.
func TooManyItems() *field.Error { return field.Invalid("must hold at most %d %s", MaxItems, AllItems) }

// ReadContent reads a message's content: a string or a list. It calls read for each part of a list.
func (m *Message) ReadContent(v wirejson.Value, read func(*Message, wirejson.Value) (Part, *field.Error)) *field.Error {
	if v.Kind() == wirejson.KindString {
		m.Text = v
		return nil
	}
	if v.Kind() != wirejson.KindArray {
		return field.WrongType("a string or an array of parts", v)
	}
	return field.Elements(v, MaxItems, AllItems, func(_ int, v wirejson.Value) *field.Error {
		p, f := read(m, v)
		m.Content = append(m.Content, p)
		return f
	})
}

// TextPart returns the part for a text. member is the path that an error about the text gets.
func TextPart(member string, text wirejson.Value) (Part, *field.Error) {
	return Part{Text: text}, field.Expect(wirejson.KindString, text).In(member)
}

// ImagePart returns the part for an image, given by its URL and its detail. member is the path that
// an error about the URL gets. An error about the detail gets the path "detail".
func ImagePart(url, detail wirejson.Value, member string) (Part, *field.Error) {
	p := Part{URL: url}
	f := cmp.Or(p.checkURL().In(member), p.readDetail(detail).In("detail"))
	return p, f
}

// Count adds the elements of a message to Elements, and returns an error if there are now too many.
func (c *Conversation) Count(m *Message) *field.Error {
	if c.Elements += 1 + len(m.Content) + len(m.Calls); c.Elements > MaxItems {
		return TooManyItems()
	}
	return nil
}

// Part is one part of a message's content: a text or an image.
type Part struct {
	Text      wirejson.Value // the JSON string; nil: an image
	URL       wirejson.Value // the JSON string of the image's URL; nil: a text
	Detail    string         // of the image: auto, high, original; or empty
	urlPrefix string         // the beginning of the URL, if URL has only the data of an image
	remote    bool           // the image is still to be fetched from its URL
	pixels    int64          // how many pixels the image has, see MaxPixels; 0: not known, for example before the image is fetched
}

// NoText is the content of a message without text.
var NoText = wirejson.Value(`""`)

// Call is a call that an assistant has made (ChatCompletionMessageToolCall in OpenAI's API).
type Call struct {
	ID        wirejson.Value
	Name      string
	Arguments wirejson.Value
	Function  bool // the request has the call as a function_call, which has no id; this server has made the ID
}

// Empty reports whether a message has no content.
func (m *Message) Empty() bool { return m.Text == nil && m.Content == nil }

// Fill gives a message without content the content [NoText].
func (m *Message) Fill() {
	if m.Empty() {
		m.Text = NoText
	}
}
