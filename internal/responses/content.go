package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// itemPart has the members of a part besides its type.
type itemPart struct{ text, refusal, image, detail, file jsontext.Value }

func (p *itemPart) members() []jsontext.Member {
	return []jsontext.Member{jsontext.Into("text", &p.text), jsontext.Into("refusal", &p.refusal),
		jsontext.Into("image_url", &p.image), jsontext.Into("detail", &p.detail), jsontext.Into("file_id", &p.file)}
}

// readItemPart reads a part of the content of a message, or of the output of a call.
func readItemPart(m *prompt.Message, v jsontext.Value) (prompt.Part, *field.Error) {
	var fields itemPart
	var kind string
	if f := field.Typed(&kind, v, fields.members()...); f != nil {
		return prompt.Part{}, f
	}
	switch {
	case kind == "input_text", kind == "output_text" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("text", fields.text)
	case kind == "refusal" && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("refusal", fields.refusal)
	case kind == "input_image" && (m.Role == prompt.RoleUser || m.Role == prompt.RoleTool):
		return fields.inputImage()
	}
	return prompt.Part{}, unknownItemPart(m, kind).In("type")
}

// inputImage returns an input_image, or a computer_screenshot.
func (p *itemPart) inputImage() (prompt.Part, *field.Error) {
	if p.file.Given() {
		return prompt.Part{}, field.Unsupported("is not supported: there are no files here; send the image as a data URL in 'image_url'").In("file_id")
	}
	return prompt.ImagePart(p.image, p.detail, "image_url")
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
