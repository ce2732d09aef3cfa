package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// readItemContent reads the content of a message, or the output of a call: a string or
// parts. No parts are accepted.
func readItemContent(m *prompt.Message, v jsontext.Value) *field.Error {
	switch v.Kind() {
	case jsontext.KindString:
		m.Text = v
		return nil
	case jsontext.KindArray:
		return m.ReadParts(v, readItemPart)
	}
	return field.WrongType("a string or an array of parts", v)
}

// itemPart has the members of a part.
type itemPart struct {
	kind, text, refusal, image, detail, file jsontext.Value
}

func readPartFields(v jsontext.Value) (p itemPart) {
	v.Pick(
		jsontext.Into("type", &p.kind),
		jsontext.Into("text", &p.text),
		jsontext.Into("refusal", &p.refusal),
		jsontext.Into("image_url", &p.image),
		jsontext.Into("detail", &p.detail),
		jsontext.Into("file_id", &p.file),
	)
	return p
}

func readItemPart(m *prompt.Message, v jsontext.Value) (prompt.Part, *field.Error) {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return prompt.Part{}, f
	}
	fields := readPartFields(v)
	if f := field.Expect(jsontext.KindString, fields.kind); f != nil {
		return prompt.Part{}, f.In("type")
	}
	switch name := fields.kind.Text(); {
	case name == "input_text", name == "output_text" && m.Role == prompt.RoleAssistant:
		return prompt.Part{Kind: prompt.PartText, Text: fields.text}, field.Expect(jsontext.KindString, fields.text).In("text")
	case name == "refusal" && m.Role == prompt.RoleAssistant:
		return prompt.Part{Kind: prompt.PartText, Text: fields.refusal}, field.Expect(jsontext.KindString, fields.refusal).In("refusal")
	case name == "input_image" && (m.Role == prompt.RoleUser || m.Role == prompt.RoleTool):
		return readInputImage(fields)
	default:
		return prompt.Part{}, unknownItemPart(m, name).In("type")
	}
}

// readInputImage reads an input_image.
func readInputImage(fields itemPart) (prompt.Part, *field.Error) {
	if fields.file.Given() {
		return prompt.Part{}, field.Unsupported("is not supported: there are no files here; send the image as a data URL in 'image_url'").In("file_id")
	}
	p := prompt.Part{Kind: prompt.PartImage, URL: fields.image}
	if f := p.CheckURL(); f != nil {
		return prompt.Part{}, f.In("image_url")
	}
	f := p.ReadDetail(fields.detail)
	return p, f.In("detail")
}

func unknownItemPart(m *prompt.Message, name string) *field.Error {
	switch name {
	case "input_file":
		return field.Unsupported("'input_file' is not supported: send its text, or an image of it")
	case "input_audio":
		return field.Unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "text", "image_url":
		return field.Invalid("'%s' belongs to POST /v1/chat/completions; here it is input_text or input_image", name)
	}
	switch m.Role {
	case prompt.RoleUser, prompt.RoleTool:
		return field.Invalid("must be input_text or input_image here")
	case prompt.RoleAssistant:
		return field.Invalid("must be output_text or refusal in a message of the role assistant")
	}
	return field.Invalid("must be input_text in a message of the role %s", m.Role)
}
