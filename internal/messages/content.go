package messages

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// readBlock adds the texts and images of a block to m, which is a user's message or the result of a
// tool. An empty text adds nothing.
func (h *history) readBlock(m *prompt.Message, b *rawBlock) *field.Error {
	inResult := m.Role == prompt.RoleTool
	switch b.kind {
	case "", "text":
		f := field.Expect(wirejson.KindString, b.text).In("text")
		if f == nil && len(b.text.RawText()) > 0 {
			m.Content = append(m.Content, prompt.Part{Text: b.text})
		}
		return f
	case "image":
		return readImage(m, b.source).In("source")
	case "document":
		return h.readDocument(m, b)
	case "search_result":
		return h.readSearchResult(m, b)
	case "tool_reference":
		if inResult {
			f := field.NonEmpty(b.toolName).In("tool_name")
			if f == nil { // the model may call the deferred tool from now on
				addNotice(m, h.request.deferred.describe(b.toolName.Text()))
			}
			return f
		}
	case "container_upload":
		addNotice(m, "[A file that was uploaded to a container of Anthropic's is missing here.]")
		return nil
	case "tool_use", "thinking", "redacted_thinking":
		return field.Invalid("'%s' belongs to messages of the role assistant", b.kind).In("type")
	}
	if inResult {
		return field.Invalid("must be text, image, document, search_result or tool_reference").In("type")
	}
	return field.Invalid("must be text, image, document, search_result or tool_result in a message of the role user").In("type")
}

func addNotice(m *prompt.Message, text string) {
	m.Content = append(m.Content, prompt.Part{Text: wirejson.AppendString(nil, text)})
}

// source has the members of the source of an image or a document.
type source struct{ kind, media, data, url, content wirejson.Value }

func readSource(v wirejson.Value) (s source, f *field.Error) {
	return s, field.Typed(&s.kind, v, wirejson.Into("media_type", &s.media), wirejson.Into("data", &s.data),
		wirejson.Into("url", &s.url), wirejson.Into("content", &s.content))
}

// readImage reads the source of an image: base64, or an https URL. For an image that was uploaded to
// Anthropic, the model gets a notice that the image is missing.
func readImage(m *prompt.Message, v wirejson.Value) *field.Error {
	s, f := readSource(v)
	if f != nil {
		return f
	}
	var p prompt.Part
	switch s.kind.Text() {
	case "base64":
		p, f = prompt.Base64Part(s.media, s.data)
	case "url":
		p, f = prompt.ImagePart(s.url, nil, "url")
	case "file":
		addNotice(m, "[An image is missing here: it was uploaded to Anthropic, where this server cannot read it.]")
		return nil
	default:
		return field.Invalid("must be base64, url or file").In("type")
	}
	m.Content = append(m.Content, p)
	return f
}

// readDocument reads a document: a text or blocks. For a document in base64, at a URL or uploaded
// to Anthropic, the model gets a notice instead, which says why it cannot read the document.
func (h *history) readDocument(m *prompt.Message, b *rawBlock) *field.Error {
	var title, context string
	s, f := readSource(b.source)
	f = cmp.Or(field.Text(&title, b.title).In("title"), field.Text(&context, b.context).In("context"), f.In("source"))
	if f != nil {
		return f
	}
	head, missing := heading("Document", title, context), ""
	switch s.kind.Text() {
	case "text":
		addNotice(m, head)
		m.Content = append(m.Content, prompt.Part{Text: s.data})
		return field.Expect(wirejson.KindString, s.data).In("data").In("source")
	case "content":
		addNotice(m, head)
		return h.eachBlock(s.content, func(_ int, b *rawBlock) *field.Error {
			if b.kind != "" && b.kind != "text" && b.kind != "image" {
				return field.Invalid("must be text or image in a document").In("type")
			}
			return h.readBlock(m, b)
		}).In("content").In("source")
	case "base64":
		missing = "The document is a PDF, which cannot be read here. Extract its text with a tool, such as pdftotext, and read that."
		if s.media.Is("text/plain") {
			missing = "The document is missing here: its text came in base64."
		}
	case "url":
		missing = "The document is missing here: only its URL was sent. Fetch it with a tool, and read that."
	case "file":
		missing = "The document is missing here: it was uploaded to Anthropic, where this server cannot read it."
	default:
		return field.Invalid("must be base64, text, content, url or file").In("type").In("source")
	}
	addNotice(m, head+"\n\n["+missing+"]")
	return nil
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

func (h *history) readSearchResult(m *prompt.Message, b *rawBlock) *field.Error {
	f := cmp.Or(field.Expect(wirejson.KindString, b.title).In("title"), field.Expect(wirejson.KindString, b.source).In("source"),
		field.Expect(wirejson.KindArray, b.content).In("content"))
	if f != nil {
		return f
	}
	addNotice(m, heading("Search result", b.title.Text(), b.source.Text()))
	return h.eachBlock(b.content, func(_ int, b *rawBlock) *field.Error {
		if b.kind != "text" {
			return field.Invalid("must be text in a search_result").In("type")
		}
		return h.readBlock(m, b)
	}).In("content")
}
