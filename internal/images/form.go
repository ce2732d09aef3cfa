package images

import (
	"bufio"
	"bytes"
	"errors"
	"mime"
	"net/textproto"
)

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
