package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// readItemContent reads the content of a message, or the output of a call: a
// string or parts. None at all is let through, and leaves nothing.
func readItemContent(m *message, v jsontext.Value) *fault {
	switch v.Kind() {
	case jsontext.KindString:
		m.text = v
		return nil
	case jsontext.KindArray:
		for i, v := range v.Elements() {
			if i == maxItems {
				return tooManyItems()
			}
			p, f := readItemPart(m, v)
			if f != nil {
				return f.at(i)
			}
			m.content = append(m.content, p)
		}
		return nil
	}
	return wrongType("a string or an array of parts", v)
}

// itemPart are the members of a part as they stand in the body.
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

func readItemPart(m *message, v jsontext.Value) (part, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return part{}, f
	}
	fields := readPartFields(v)
	if f := expect(jsontext.KindString, fields.kind); f != nil {
		return part{}, f.in("type")
	}
	switch name := fields.kind.Text(); {
	case name == "input_text", name == "output_text" && m.role == roleAssistant:
		return part{kind: partText, text: fields.text}, expect(jsontext.KindString, fields.text).in("text")
	case name == "refusal" && m.role == roleAssistant:
		return part{kind: partText, text: fields.refusal}, expect(jsontext.KindString, fields.refusal).in("refusal")
	case name == "input_image" && (m.role == roleUser || m.role == roleTool):
		return readInputImage(fields)
	default:
		return part{}, unknownItemPart(m, name).in("type")
	}
}

// readInputImage reads an input_image.
func readInputImage(fields itemPart) (part, *fault) {
	if fields.file.Given() {
		return part{}, unsupported("is not supported: there are no files here; send the image as a data URL in 'image_url'").in("file_id")
	}
	p := part{kind: partImage, url: fields.image}
	if f := p.checkURL(); f != nil {
		return part{}, f.in("image_url")
	}
	f := p.readDetail(fields.detail)
	return p, f.in("detail")
}

func unknownItemPart(m *message, name string) *fault {
	switch name {
	case "input_file":
		return unsupported("'input_file' is not supported: send its text, or an image of it")
	case "input_audio":
		return unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "text", "image_url":
		return wrongValue("'%s' belongs to POST /v1/chat/completions; here it is input_text or input_image", name)
	}
	switch m.role {
	case roleUser, roleTool:
		return wrongValue("must be input_text or input_image here")
	case roleAssistant:
		return wrongValue("must be output_text or refusal in a message of the role assistant")
	}
	return wrongValue("must be input_text in a message of the role %s", m.role)
}
