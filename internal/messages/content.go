package messages

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// contentReader reads the blocks of a user's message, or of the result of a tool.
type contentReader struct {
	inResult bool
	images   []imagePlace // of the message; its index is set when all of it has been read
}

// block reads a block as parts: texts and images. An empty text gives no part.
func (c *contentReader) block(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	switch b.kind {
	case "", "text":
		if f := field.Expect(wirejson.KindString, b.text).In("text"); f != nil {
			return nil, f
		}
		return textParts(b.text)
	case "image":
		return readImage(b)
	case "document":
		return c.document(h, b)
	case "search_result":
		return c.searchResult(h, b)
	case "tool_reference":
		if c.inResult {
			return h.toolReference(b)
		}
	case "container_upload":
		return sentence("[A file that was uploaded to a container of Anthropic's is missing here.]"), nil
	case "tool_use", "thinking", "redacted_thinking":
		return nil, field.Invalid("'%s' belongs to messages of the role assistant", b.kind).In("type")
	}
	if c.inResult {
		return nil, field.Invalid("must be text, image, document, search_result or tool_reference").In("type")
	}
	return nil, field.Invalid("must be text, image, document, search_result or tool_result in a message of the role user").In("type")
}

func textParts(text wirejson.Value) ([]prompt.Part, *field.Error) {
	if len(text.RawText()) == 0 {
		return nil, nil
	}
	return []prompt.Part{{Text: text}}, nil
}

// sentence returns a part with a text that this server writes for the model.
func sentence(text string) []prompt.Part {
	return []prompt.Part{{Text: wirejson.AppendString(nil, text)}}
}

// source has the members of the source of an image or a document.
type source struct{ kind, media, data, url, content wirejson.Value }

func readSource(v wirejson.Value) (s source, f *field.Error) {
	return s, field.Typed(&s.kind, v, wirejson.Into("media_type", &s.media), wirejson.Into("data", &s.data),
		wirejson.Into("url", &s.url), wirejson.Into("content", &s.content))
}

// readImage reads an image in base64, or at an https URL.
func readImage(b *rawBlock) ([]prompt.Part, *field.Error) {
	s, f := readSource(b.source)
	if f != nil {
		return nil, f.In("source")
	}
	switch s.kind.Text() {
	case "base64":
		p, f := prompt.Base64Part(s.media, s.data)
		return []prompt.Part{p}, f.In("source")
	case "url":
		p, f := prompt.ImagePart(s.url, nil, "url")
		return []prompt.Part{p}, f.In("source")
	case "file":
		return sentence("[An image is missing here: it was uploaded to Anthropic, where this server cannot read it.]"), nil
	}
	return nil, field.Invalid("must be base64, url or file").In("type").In("source")
}

// document reads a document: a text or blocks. For any other form, the model gets a sentence instead,
// which says what is missing.
func (c *contentReader) document(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	var name, about string
	f := cmp.Or(field.Text(&name, b.title).In("title"), field.Text(&about, b.context).In("context"))
	if f != nil {
		return nil, f
	}
	s, f := readSource(b.source)
	if f != nil {
		return nil, f.In("source")
	}
	head := heading("Document", name, about)
	switch s.kind.Text() {
	case "text":
		if f := field.Expect(wirejson.KindString, s.data).In("data").In("source"); f != nil {
			return nil, f
		}
		return append(sentence(head), prompt.Part{Text: s.data}), nil
	case "content":
		parts := sentence(head)
		f := h.blocks(s.content, func(_ int, b *rawBlock) *field.Error {
			if b.kind != "" && b.kind != "text" && b.kind != "image" {
				return field.Invalid("must be text or image in a document").In("type")
			}
			more, f := c.block(h, b)
			parts = append(parts, more...)
			return f
		})
		return parts, f.In("content").In("source")
	case "base64":
		if s.media.Is("text/plain") {
			return sentence(head + "\n\n[The document is missing here: its text came in base64.]"), nil
		}
		return sentence(head + "\n\n[The document is a PDF, which cannot be read here. Extract its text with a tool, such as pdftotext, and read that.]"), nil
	case "url":
		return sentence(head + "\n\n[The document is missing here: only its URL was sent. Fetch it with a tool, and read that.]"), nil
	case "file":
		return sentence(head + "\n\n[The document is missing here: it was uploaded to Anthropic, where this server cannot read it.]"), nil
	}
	return nil, field.Invalid("must be base64, text, content, url or file").In("type").In("source")
}

// heading returns the first line of the text that the model gets for a document or a search result.
func heading(what, title, about string) string {
	if title != "" {
		what += " " + `"` + title + `"`
	}
	if about != "" {
		what += " (" + about + ")"
	}
	return what + ":"
}

// searchResult reads a result of a search that the client has made.
func (c *contentReader) searchResult(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	f := cmp.Or(field.Expect(wirejson.KindString, b.title).In("title"), field.Expect(wirejson.KindString, b.source).In("source"),
		field.Expect(wirejson.KindArray, b.content).In("content"))
	if f != nil {
		return nil, f
	}
	parts := sentence(heading("Search result", b.title.Text(), b.source.Text()))
	f = h.blocks(b.content, func(_ int, b *rawBlock) *field.Error {
		if b.kind != "text" {
			return field.Invalid("must be text in a search_result").In("type")
		}
		more, f := c.block(h, b)
		parts = append(parts, more...)
		return f
	})
	return parts, f.In("content")
}

// toolReference reads a reference to a deferred tool. It returns a text by which the model learns
// that it may call the tool.
func (h *history) toolReference(b *rawBlock) ([]prompt.Part, *field.Error) {
	name := b.toolName
	if f := field.NonEmpty(name).In("tool_name"); f != nil {
		return nil, f
	}
	return sentence(h.request.deferred.describe(name.Text())), nil
}
