package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// readContent reads a content: a string or parts. Clients write the content of messages
// without a text as null or as no parts.
func readContent(m *prompt.Message, v jsontext.Value) *field.Error {
	switch v.Kind() {
	case jsontext.KindString:
		m.Text = v
		return nil
	case jsontext.KindArray:
		return readParts(m, v).In("content")
	case jsontext.KindNull:
		m.Text = prompt.NoText
		return nil
	}
	return field.WrongType("a string or an array of parts", v).In("content")
}

func readParts(m *prompt.Message, v jsontext.Value) *field.Error {
	if f := m.ReadParts(v, readPart); f != nil {
		return f
	}
	if len(m.Content) == 0 {
		m.Text = prompt.NoText
	}
	return nil
}

func readPart(m *prompt.Message, v jsontext.Value) (prompt.Part, *field.Error) {
	var kind, text, refusal, image jsontext.Value
	if f := field.Object(v,
		jsontext.Into("type", &kind),
		jsontext.Into("text", &text),
		jsontext.Into("refusal", &refusal),
		jsontext.Into("image_url", &image),
	); f != nil {
		return prompt.Part{}, f
	}
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return prompt.Part{}, f.In("type")
	}
	switch name := kind.Text(); {
	case name == "text":
		return prompt.Part{Kind: prompt.PartText, Text: text}, field.Expect(jsontext.KindString, text).In("text")
	case name == "refusal" && m.Role == prompt.RoleAssistant:
		return prompt.Part{Kind: prompt.PartText, Text: refusal}, field.Expect(jsontext.KindString, refusal).In("refusal")
	case name == "image_url" && (m.Role == prompt.RoleUser || m.Role == prompt.RoleTool):
		return readImage(image)
	default:
		return prompt.Part{}, unknownPart(m, name).In("type")
	}
}

func unknownPart(m *prompt.Message, name string) *field.Error {
	switch name {
	case "input_audio":
		return field.Unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "file":
		return field.Unsupported("'file' is not supported: send its text, or an image of it")
	case "input_text", "output_text", "input_image", "input_file":
		return field.Invalid("'%s' belongs to POST /v1/responses; here it is text or image_url", name)
	}
	want := "text"
	switch m.Role {
	case prompt.RoleUser, prompt.RoleTool:
		want = "text or image_url"
	case prompt.RoleAssistant:
		want = "text or refusal"
	}
	return field.Invalid("must be %s in a message of the role %s", want, m.Role)
}

// readImage reads the image_url of a part.
func readImage(v jsontext.Value) (prompt.Part, *field.Error) {
	p := prompt.Part{Kind: prompt.PartImage}
	var detail jsontext.Value
	if f := field.Object(v, jsontext.Into("url", &p.URL), jsontext.Into("detail", &detail)); f != nil {
		return prompt.Part{}, f.In("image_url")
	}
	if f := p.CheckURL(); f != nil {
		return prompt.Part{}, f.In("url").In("image_url")
	}
	f := p.ReadDetail(detail)
	return p, f.In("detail").In("image_url")
}
