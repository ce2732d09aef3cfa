package images

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"mime"
	"net/textproto"

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

// formPart is a part of a form. Its content is a subslice of the body.
type formPart struct {
	name    string
	content []byte
}

const (
	// maxParts is how many parts a form may have. The API has fewer fields than that.
	maxParts = 64
	// maxPartHeader bounds the header of a part, in bytes.
	maxPartHeader = 4 << 10
)

// splitForm returns the parts of a form (RFC 7578). Unlike the standard library, it does not copy them.
func splitForm(body []byte, boundary string) ([]formPart, error) {
	if boundary == "" {
		return nil, errors.New("its Content-Type names no boundary")
	}
	delimiter := []byte("\r\n--" + boundary)
	remaining, found := bytes.CutPrefix(body, delimiter[2:]) // no line break comes before the first boundary
	if !found {                                              // there is a text before the first boundary (a preamble)
		_, remaining, found = bytes.Cut(body, delimiter)
	}
	if !found {
		return nil, errors.New("it has no boundary")
	}
	var parts []formPart
	for !bytes.HasPrefix(remaining, []byte("--")) {
		line, after, ok := bytes.Cut(remaining, []byte("\r\n"))
		if !ok || len(bytes.Trim(line, " \t")) > 0 {
			return nil, errors.New("what follows a boundary is neither a part nor the end")
		}
		content, next, ok := bytes.Cut(after, delimiter)
		if !ok {
			return nil, errors.New("it has no end")
		}
		part, err := readFormPart(content)
		if err != nil {
			return nil, err
		}
		if parts = append(parts, part); len(parts) > maxParts {
			return nil, errors.New("it has too many parts")
		}
		remaining = next
	}
	return parts, nil
}

func readFormPart(part []byte) (formPart, error) {
	head, content, ok := bytes.Cut(part, []byte("\r\n\r\n"))
	if !ok || len(head) > maxPartHeader {
		return formPart{}, errors.New("a part has no header, or a long one")
	}
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(part[:len(head)+4]))).ReadMIMEHeader()
	if err != nil {
		return formPart{}, errors.New("the header of a part cannot be read")
	}
	disposition, params, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" || params["name"] == "" {
		return formPart{}, errors.New("a part has no name")
	}
	return formPart{params["name"], content}, nil
}
