package images

import (
	"cmp"
	"encoding/base64"
	"mime"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// DecodeEdit reads a request for edited pictures, a form or JSON. Call [Request.Encode] before Plan.
func DecodeEdit(contentType string, body []byte) (*Request, *apierror.Error) {
	r := newRequest(true)
	mediaType, params, _ := mime.ParseMediaType(contentType)
	if mediaType != "multipart/form-data" {
		return field.Body(body, r, (*Request).read)
	}
	parts, err := splitForm(body, params["boundary"])
	if err != nil {
		return nil, apierror.InvalidRequest("", "The request body could not be read as a form: "+err.Error()+".")
	}
	for _, part := range parts {
		if f := r.readPart(&part); f != nil {
			return nil, f.In(part.name).APIError()
		}
	}
	if f := r.buildMessages(); f != nil {
		return nil, f.APIError()
	}
	return r, nil
}

// literalFields are the fields of a form that have numbers or booleans. All other fields have texts.
var literalFields = map[string]bool{"n": true, "stream": true, "output_compression": true, "partial_images": true}

func (r *Request) readPart(part *formPart) *field.Error {
	switch part.name {
	case "image", "image[]":
		if len(r.formImages) == maxInputs {
			return field.Invalid("must be given at most %d times", maxInputs)
		}
		r.formImages = append(r.formImages, part.content)
		return nil
	case "images":
		return field.Invalid("is for requests in JSON: a form has image or image[]")
	}
	read, known := readers[part.name]
	if !known {
		return nil
	}
	value := wirejson.AppendString(nil, part.content)
	if literalFields[part.name] {
		literal, err := wirejson.Parse(part.content)
		if err != nil {
			return field.Invalid("must be a number, true or false, not %.64q", part.content)
		}
		value = literal
	}
	return read(r, value)
}

// Encoded returns how many bytes [Request.Encode] needs for the pictures of a form. Without a form: 0.
func (r *Request) Encoded() (sum int64) {
	for _, file := range r.formImages {
		sum += int64(base64.StdEncoding.EncodedLen(len(file))) + 2
	}
	return sum
}

// Encode checks the pictures of a form, if it is one, and puts them into the conversation.
func (r *Request) Encode() *apierror.Error {
	if len(r.formImages) == 0 {
		return nil
	}
	m := &r.Messages[1] // the user's message, see buildMessages
	text := m.Content
	m.Content = nil
	for i, file := range r.formImages {
		data := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(file))+2), '"')
		data = append(base64.StdEncoding.AppendEncode(data, file), '"')
		part, f := prompt.Base64Image(data)
		if f != nil {
			return f.At(i).In("image").APIError()
		}
		m.Content = append(m.Content, part)
		m.Size += len(data)
	}
	m.Content, r.formImages = append(m.Content, text...), nil
	return r.Count(m).APIError()
}

func (r *Request) readImages(v wirejson.Value) *field.Error {
	r.inputImages = nil // if the request has several fields images, the last one counts
	return field.Elements(v, maxInputs, "images", func(_ int, v wirejson.Value) *field.Error {
		var url, file wirejson.Value
		f := field.Object(v, wirejson.Into("image_url", &url), wirejson.Into("file_id", &file))
		f = cmp.Or(f, field.Refuse(file, "this server keeps no files; send the image as a data URL in image_url").In("file_id"))
		part, noImage := prompt.ImagePart(url, nil, "image_url")
		r.inputImages = append(r.inputImages, part)
		return cmp.Or(f, noImage)
	})
}
