package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// readContent reads a content that must be there: a string or parts. Clients keep
// messages without a text as null or as no parts at all.
func readContent(m *message, v jsontext.Value) *fault {
	switch v.Kind() {
	case jsontext.KindString:
		m.text = v
		return nil
	case jsontext.KindArray:
		return readParts(m, v).in("content")
	case jsontext.KindNull:
		m.text = noText
		return nil
	}
	return wrongType("a string or an array of parts", v).in("content")
}

func readParts(m *message, v jsontext.Value) *fault {
	for i, v := range v.Elements() {
		if i == maxItems {
			return tooManyItems()
		}
		p, f := readPart(m, v)
		if f != nil {
			return f.at(i)
		}
		m.content = append(m.content, p)
	}
	if len(m.content) == 0 {
		m.text = noText
	}
	return nil
}

func readPart(m *message, v jsontext.Value) (part, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return part{}, f
	}
	var kind, text, refusal, image jsontext.Value
	v.Pick(
		jsontext.Into("type", &kind),
		jsontext.Into("text", &text),
		jsontext.Into("refusal", &refusal),
		jsontext.Into("image_url", &image),
	)
	if f := expect(jsontext.KindString, kind); f != nil {
		return part{}, f.in("type")
	}
	switch name := kind.Text(); {
	case name == "text":
		return part{kind: partText, text: text}, expect(jsontext.KindString, text).in("text")
	case name == "refusal" && m.role == roleAssistant:
		return part{kind: partText, text: refusal}, expect(jsontext.KindString, refusal).in("refusal")
	case name == "image_url" && (m.role == roleUser || m.role == roleTool):
		return readImage(image)
	default:
		return part{}, unknownPart(m, name).in("type")
	}
}

func unknownPart(m *message, name string) *fault {
	switch name {
	case "input_audio":
		return unsupported("'input_audio' is not supported: audio cannot be sent to Codex")
	case "file":
		return unsupported("'file' is not supported: send its text, or an image of it")
	case "input_text", "output_text", "input_image", "input_file":
		return wrongValue("'%s' belongs to POST /v1/responses; here it is text or image_url", name)
	}
	want := "text"
	switch m.role {
	case roleUser, roleTool:
		want = "text or image_url"
	case roleAssistant:
		want = "text or refusal"
	}
	return wrongValue("must be %s in a message of the role %s", want, m.role)
}
