package prompt

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ImageTypes are the media types that models read.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// ReadDetail reads the detail of an image. Codex replaces an image of low detail by a
// sentence, so low becomes auto.
func (p *Part) ReadDetail(v jsontext.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	if f := field.Expect(jsontext.KindString, v); f != nil {
		return f
	}
	switch p.Detail = v.Text(); p.Detail {
	case "low":
		p.Detail = "auto"
	case "auto", "high", "original":
	default:
		return field.Invalid("must be auto, low, high or original")
	}
	return nil
}

// CheckURL checks that the URL of an image is a data URL with an image, or an https
// URL.
func (p *Part) CheckURL() *field.Error {
	if f := field.Expect(jsontext.KindString, p.URL); f != nil {
		return f
	}
	text := p.URL.Bytes()
	scheme, rest, _ := bytes.Cut(text, []byte(":"))
	switch {
	case bytes.EqualFold(scheme, []byte("data")):
		if len(rest) >= len(jpg) && bytes.EqualFold(rest[:len(jpg)], []byte(jpg)) {
			rest = append([]byte("image/jpeg;"), rest[len(jpg):]...)
			p.URL = jsontext.AppendString(nil, append([]byte("data:"), rest...))
		}
		return checkImageData(rest)
	case bytes.EqualFold(scheme, []byte("https")):
		if u, err := url.Parse(string(text)); err != nil || u.Host == "" {
			return field.Invalid("is not a valid https URL")
		}
		p.remote = true
		return nil
	}
	return field.Invalid("must be a data URL (data:image/png;base64,…) or an https URL")
}

// jpg begins data URLs with a media type that does not exist, but that many clients make
// of the name of a file.
const jpg = "image/jpg;"

// checkImageData checks a data URL after its scheme. Codex replaces an image that it cannot
// read by a sentence, so data that begin as no image are refused. They may be of another
// type than the URL says, as Codex looks at the data alone. The image is not decoded.
func checkImageData(rest []byte) *field.Error {
	header, data, ok := bytes.Cut(rest, []byte(","))
	media, encoding, _ := bytes.Cut(header, []byte(";"))
	if !ok || !bytes.EqualFold(encoding, []byte("base64")) {
		return field.Invalid("must be a data URL in base64, such as data:image/png;base64,…")
	}
	known := func(t string) bool { return bytes.EqualFold(media, []byte(t)) }
	if !slices.ContainsFunc(ImageTypes, known) {
		return field.Invalid("must be an image of the type png, jpeg, gif or webp")
	}
	if !isBase64(data) {
		return field.Invalid("does not hold valid base64")
	}
	var head [3 * signatureQuads / 4]byte
	n, _ := base64.StdEncoding.Decode(head[:], data[:min(len(data), signatureQuads)])
	if !slices.Contains(ImageTypes, http.DetectContentType(head[:n])) {
		return field.Invalid("does not hold a png, jpeg, gif or webp image")
	}
	return nil
}

// signatureQuads is how much of an image in base64 is decoded to tell its type: 18 bytes.
const signatureQuads = 24

// isBase64 reports whether data is standard base64, with padding, of at least one byte.
func isBase64(data []byte) bool {
	if len(data) == 0 || len(data)%4 != 0 {
		return false
	}
	data = bytes.TrimSuffix(data, []byte("="))
	data = bytes.TrimSuffix(data, []byte("="))
	for _, b := range data {
		if !base64Bytes[b] {
			return false
		}
	}
	return true
}

// base64Bytes is true for the bytes of the alphabet of base64.
var base64Bytes = func() (table [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[b] = true
	}
	return table
}()
