package openai

import (
	"bytes"
	"net/url"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// imageTypes are the media types that models read.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// readImage reads the image_url of a part.
func readImage(v jsontext.Value) (part, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return part{}, f.in("image_url")
	}
	p := part{kind: partImage}
	var detail jsontext.Value
	v.Pick(jsontext.Into("url", &p.url), jsontext.Into("detail", &detail))
	if f := p.checkURL(); f != nil {
		return part{}, f.in("url").in("image_url")
	}
	f := p.readDetail(detail)
	return p, f.in("detail").in("image_url")
}

// readDetail reads how closely the model is to look. Codex replaces an image of
// low detail by a sentence, so that low becomes auto.
func (p *part) readDetail(v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	switch p.detail = v.Text(); p.detail {
	case "low":
		p.detail = "auto"
	case "auto", "high", "original":
	default:
		return wrongValue("must be auto, low, high or original")
	}
	return nil
}

// checkURL checks that the URL of an image holds the image itself, or says where
// it is to be fetched from.
func (p *part) checkURL() *fault {
	if f := expect(jsontext.KindString, p.url); f != nil {
		return f
	}
	text := p.url.Bytes()
	scheme, rest, _ := bytes.Cut(text, []byte(":"))
	switch {
	case bytes.EqualFold(scheme, []byte("data")):
		return checkImageData(rest)
	case bytes.EqualFold(scheme, []byte("https")):
		if u, err := url.Parse(string(text)); err != nil || u.Host == "" {
			return wrongValue("is not a valid https URL")
		}
		p.remote = true
		return nil
	}
	return wrongValue("must be a data URL (data:image/png;base64,…) or an https URL")
}

// checkImageData checks a data URL behind its scheme. What the image is like is
// not looked at: Codex puts a sentence in the place of one it cannot read.
func checkImageData(rest []byte) *fault {
	header, data, ok := bytes.Cut(rest, []byte(","))
	media, encoding, _ := bytes.Cut(header, []byte(";"))
	if !ok || !bytes.EqualFold(encoding, []byte("base64")) {
		return wrongValue("must be a data URL in base64, such as data:image/png;base64,…")
	}
	known := func(t string) bool { return bytes.EqualFold(media, []byte(t)) }
	if !slices.ContainsFunc(imageTypes, known) {
		return wrongValue("must be an image of the type png, jpeg, gif or webp")
	}
	if !isBase64(data) {
		return wrongValue("does not hold valid base64")
	}
	return nil
}

// isBase64 reports whether data is standard base64 of at least one byte, with
// its padding.
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

// base64Bytes is true for the bytes of base64's alphabet.
var base64Bytes = func() (table [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[b] = true
	}
	return table
}()
