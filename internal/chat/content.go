package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// readContent reads a content: a string or parts. Clients write the content of messages
// without a text as null or as no parts.
func readContent(m *prompt.Message, v jsontext.Value) (f *field.Error) {
	if v.Kind() != jsontext.KindNull {
		f = m.ReadContent(v, readPart).In("content")
	}
	if m.Empty() {
		m.Text = prompt.NoText
	}
	return f
}

func readPart(m *prompt.Message, v jsontext.Value) (prompt.Part, *field.Error) {
	var kind, text, refusal, image, url, detail jsontext.Value
	f := field.Typed(&kind, v, jsontext.Into("text", &text), jsontext.Into("refusal", &refusal), jsontext.Into("image_url", &image))
	switch {
	case f != nil:
		return prompt.Part{}, f
	case kind.Is("text"):
		return prompt.TextPart("text", text)
	case kind.Is("refusal") && m.Role == prompt.RoleAssistant:
		return prompt.TextPart("refusal", refusal)
	case !kind.Is("image_url") || m.Role != prompt.RoleUser && m.Role != prompt.RoleTool:
		return prompt.Part{}, unknownPart(m, kind.Text()).In("type")
	}
	if f := field.Object(image, jsontext.Into("url", &url), jsontext.Into("detail", &detail)); f != nil {
		return prompt.Part{}, f.In("image_url")
	}
	p, f := prompt.ImagePart(url, detail, "url")
	return p, f.In("image_url")
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
