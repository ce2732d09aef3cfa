package messages

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// contentReader reads the blocks of a user's message, or of the result of a tool.
type contentReader struct {
	inResult bool // the blocks belong to the result of a tool
}

// readBlock reads a block as parts: texts and images. An empty text gives no part.
func (c *contentReader) readBlock(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	switch b.kind {
	case "", "text":
		if f := field.Expect(wirejson.KindString, b.text).In("text"); f != nil {
			return nil, f
		}
		return textParts(b.text)
	case "image":
		return readImage(b)
	case "document":
		return c.readDocument(h, b)
	case "search_result":
		return c.readSearchResult(h, b)
	case "tool_reference":
		if c.inResult {
			return h.readToolReference(b)
		}
	case "container_upload":
		return noticeParts("[A file that was uploaded to a container of Anthropic's is missing here.]"), nil
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

// noticeParts returns one part, with a text that this server writes for the model.
func noticeParts(text string) []prompt.Part {
	return []prompt.Part{{Text: wirejson.AppendString(nil, text)}}
}

// source has the members of the source of an image or a document.
type source struct{ kind, media, data, url, content wirejson.Value }

func readSource(v wirejson.Value) (s source, f *field.Error) {
	return s, field.Typed(&s.kind, v, wirejson.Into("media_type", &s.media), wirejson.Into("data", &s.data),
		wirejson.Into("url", &s.url), wirejson.Into("content", &s.content))
}

// readImage reads an image in base64, or at an https URL. For an image that was uploaded to
// Anthropic, the model gets a notice that the image is missing.
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
		return noticeParts("[An image is missing here: it was uploaded to Anthropic, where this server cannot read it.]"), nil
	}
	return nil, field.Invalid("must be base64, url or file").In("type").In("source")
}

// readDocument reads a document: a text or blocks. For a document in base64, at a URL or uploaded
// to Anthropic, the model gets a notice instead, which says why it cannot read the document.
func (c *contentReader) readDocument(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	var title, context string
	f := cmp.Or(field.Text(&title, b.title).In("title"), field.Text(&context, b.context).In("context"))
	if f != nil {
		return nil, f
	}
	s, f := readSource(b.source)
	if f != nil {
		return nil, f.In("source")
	}
	head := heading("Document", title, context)
	switch s.kind.Text() {
	case "text":
		if f := field.Expect(wirejson.KindString, s.data).In("data").In("source"); f != nil {
			return nil, f
		}
		return append(noticeParts(head), prompt.Part{Text: s.data}), nil
	case "content":
		parts := noticeParts(head)
		f := h.eachBlock(s.content, func(_ int, b *rawBlock) *field.Error {
			if b.kind != "" && b.kind != "text" && b.kind != "image" {
				return field.Invalid("must be text or image in a document").In("type")
			}
			more, f := c.readBlock(h, b)
			parts = append(parts, more...)
			return f
		})
		return parts, f.In("content").In("source")
	case "base64":
		if s.media.Is("text/plain") {
			return noticeParts(head + "\n\n[The document is missing here: its text came in base64.]"), nil
		}
		return noticeParts(head + "\n\n[The document is a PDF, which cannot be read here. Extract its text with a tool, such as pdftotext, and read that.]"), nil
	case "url":
		return noticeParts(head + "\n\n[The document is missing here: only its URL was sent. Fetch it with a tool, and read that.]"), nil
	case "file":
		return noticeParts(head + "\n\n[The document is missing here: it was uploaded to Anthropic, where this server cannot read it.]"), nil
	}
	return nil, field.Invalid("must be base64, text, content, url or file").In("type").In("source")
}

// heading returns the line with which the text of a document or a search result begins.
func heading(label, title, detail string) string {
	if title != "" {
		label += " " + `"` + title + `"`
	}
	if detail != "" {
		label += " (" + detail + ")"
	}
	return label + ":"
}

// readSearchResult reads a result of a search that the client has made.
func (c *contentReader) readSearchResult(h *history, b *rawBlock) ([]prompt.Part, *field.Error) {
	f := cmp.Or(field.Expect(wirejson.KindString, b.title).In("title"), field.Expect(wirejson.KindString, b.source).In("source"),
		field.Expect(wirejson.KindArray, b.content).In("content"))
	if f != nil {
		return nil, f
	}
	parts := noticeParts(heading("Search result", b.title.Text(), b.source.Text()))
	f = h.eachBlock(b.content, func(_ int, b *rawBlock) *field.Error {
		if b.kind != "text" {
			return field.Invalid("must be text in a search_result").In("type")
		}
		more, f := c.readBlock(h, b)
		parts = append(parts, more...)
		return f
	})
	return parts, f.In("content")
}

// readToolReference reads a reference to a deferred tool. It returns a notice that the model may
// call the tool.
func (h *history) readToolReference(b *rawBlock) ([]prompt.Part, *field.Error) {
	name := b.toolName
	if f := field.NonEmpty(name).In("tool_name"); f != nil {
		return nil, f
	}
	return noticeParts(h.request.deferred.describe(name.Text())), nil
}
