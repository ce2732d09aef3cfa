package prompt

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ImageTypes are the media types of the images that models can read.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// defaultDetail is the detail of a message's image without a detail, as in OpenAI's API. Codex itself
// would use another detail in the input of a turn, and none in a history.
const defaultDetail = "auto"

// ResultDetail is what Codex gives to an image in a tool's result that comes while the turn waits.
const ResultDetail = "high"

// readDetail reads an image's detail. low becomes auto: Codex would replace the image by a sentence.
func (p *Part) readDetail(v wirejson.Value) *field.Error {
	f := field.Text(&p.Detail, v)
	switch {
	case f != nil || !v.Given():
		return f
	case p.Detail == "low":
		p.Detail = "auto"
	case !slices.Contains([]string{"auto", "high", "original"}, p.Detail):
		f = field.Invalid("must be auto, low, high or original")
	}
	return f
}

// checkURL checks that the URL of an image is an https URL, or a data URL with an image. It marks
// an image at an https URL as remote, and corrects the media type image/jpg.
func (p *Part) checkURL() *field.Error {
	if f := field.Expect(wirejson.KindString, p.URL); f != nil {
		return f
	}
	text := p.URL.Bytes()
	scheme, afterScheme, _ := bytes.Cut(text, []byte(":"))
	switch {
	case bytes.EqualFold(scheme, []byte("data")):
		if len(afterScheme) >= len(jpgPrefix) && bytes.EqualFold(afterScheme[:len(jpgPrefix)], []byte(jpgPrefix)) {
			afterScheme = append([]byte("image/jpeg;"), afterScheme[len(jpgPrefix):]...)
			p.URL = wirejson.AppendString(nil, append([]byte("data:"), afterScheme...))
		}
		return p.checkImageData(afterScheme)
	case bytes.EqualFold(scheme, []byte("https")):
		if u, err := url.Parse(string(text)); err != nil || u.Host == "" {
			return field.Invalid("is not a valid https URL")
		}
		p.remote = true
		return nil
	}
	return field.Invalid("must be a data URL (data:image/png;base64,…) or an https URL")
}

// jpgPrefix begins some data URLs. image/jpg does not exist, but clients derive it from files' names.
const jpgPrefix = "image/jpg;"

// Base64Part returns the part for an image of this media type. It does not copy the data.
func Base64Part(media, data wirejson.Value) (Part, *field.Error) {
	if f := cmp.Or(field.Expect(wirejson.KindString, media).In("media_type"), field.Expect(wirejson.KindString, data).In("data")); f != nil {
		return Part{}, f
	}
	mediaType := imageType(media.Bytes())
	if media.Is(strings.TrimSuffix(jpgPrefix, ";")) {
		mediaType = "image/jpeg"
	}
	if mediaType == "" {
		return Part{}, imageTypeError().In("media_type")
	}
	p := Part{URL: data, urlPrefix: "data:" + mediaType + ";base64,"}
	return p, p.checkBase64(data.Bytes()).In("data")
}

// Base64Image returns the part for base64 data, without a copy. Its first bytes show the type.
func Base64Image(data wirejson.Value) (Part, *field.Error) {
	if f := field.Expect(wirejson.KindString, data); f != nil {
		return Part{}, f
	}
	text := data.Bytes()
	p := Part{URL: data, urlPrefix: "data:" + sniff(text) + ";base64,"}
	return p, p.checkBase64(text)
}

func (p *Part) imageURL() string {
	if p.urlPrefix == "" {
		return p.URL.Text()
	}
	return p.urlPrefix + string(p.URL.Bytes())
}

func (p *Part) appendURL(dst []byte) []byte {
	if p.urlPrefix == "" {
		return append(dst, p.URL...)
	}
	return append(append(append(append(dst, '"'), p.urlPrefix...), p.URL.RawText()...), '"')
}

func (p *Part) checkImageData(afterScheme []byte) *field.Error {
	header, data, ok := bytes.Cut(afterScheme, []byte(","))
	media, encoding, _ := bytes.Cut(header, []byte(";"))
	if !ok || !bytes.EqualFold(encoding, []byte("base64")) {
		return field.Invalid("must be a data URL in base64, such as data:image/png;base64,…")
	}
	if imageType(media) == "" {
		return imageTypeError()
	}
	return p.checkBase64(data)
}

// imageType returns media as in [ImageTypes], whose case may differ, or an empty string.
func imageType(media []byte) string {
	index := slices.IndexFunc(ImageTypes, func(t string) bool { return bytes.EqualFold(media, []byte(t)) })
	if index < 0 {
		return ""
	}
	return ImageTypes[index]
}

func imageTypeError() *field.Error {
	return field.Invalid("must be an image of the type png, jpeg, gif or webp")
}

// checkBase64 checks an image's base64 data, and reads the image's size without decoding the image. Data
// that do not begin like an image are an error: Codex would show the model a sentence instead of them. The
// type may differ from the one in the request, since Codex looks only at the data.
func (p *Part) checkBase64(data []byte) *field.Error {
	if len(data) == 0 {
		return field.Invalid("is empty")
	}
	if !wirejson.IsBase64(data) {
		return field.Invalid("does not hold valid base64")
	}
	mediaType := sniff(data)
	if !slices.Contains(ImageTypes, mediaType) {
		return field.Invalid("does not hold a png, jpeg, gif or webp image")
	}
	if mediaType == "image/png" {
		if f := checkColorProfile(data); f != nil {
			return f
		}
	}
	return p.checkPixels(mediaType, data)
}

// sniff returns the media type of base64 data. It decodes and checks only the first bytes.
func sniff(data []byte) string {
	var head [3 * signatureChars / 4]byte
	n, _ := base64.StdEncoding.Decode(head[:], data[:min(len(data), signatureChars)])
	return http.DetectContentType(head[:n])
}

// signatureChars is how many characters of base64 data sniff decodes. They encode 18 bytes.
const signatureChars = 24

// MaxRemoteImages is how many different images of a request may be fetched.
const MaxRemoteImages = 16

// maxFetchedBytes bounds a request's fetched images together, in bytes of their data URLs. An image
// counts each time that it is named, since Codex gets as many copies.
const maxFetchedBytes = 64 << 20

// RemoteImages returns the https URLs of images to fetch, each once, in the order of the request.
// [Conversation.SetImages] must get the images before the request is planned.
func (c *Conversation) RemoteImages() []string {
	var urls []string
	seen := map[string]bool{}
	for _, p := range c.remoteParts {
		if url := p.URL.Text(); !seen[url] {
			seen[url] = true
			urls = append(urls, url)
		}
	}
	return urls
}

// CheckRemoteImages returns an error if there are more remote images than may be fetched.
func (c *Conversation) CheckRemoteImages() *field.Error {
	if n := len(c.RemoteImages()); n > MaxRemoteImages {
		return field.Invalid("must hold at most %d remote images, not %d", MaxRemoteImages, n)
	}
	return nil
}

// SetImages replaces https URLs by the fetched images in data: PNG, JPEG, GIF or WebP as data URLs
// in base64. A URL that is not in data stays, and planning the request fails later. If the images
// together exceed maxFetchedBytes, SetImages returns false and changes nothing.
func (c *Conversation) SetImages(data map[string]string) bool {
	total := 0
	for _, p := range c.remoteParts {
		if total += len(data[p.URL.Text()]); total > maxFetchedBytes {
			return false
		}
	}
	encoded := make(map[string]Part, len(data)) // by URL: each image is encoded once
	for m, p := range c.remoteParts {
		url := p.URL.Text()
		fetched, ok := data[url]
		if !ok {
			continue
		}
		image, known := encoded[url]
		if !known {
			image.URL = wirejson.AppendString(make([]byte, 0, len(fetched)+2), fetched)
			image.pixels, _ = CheckImage(fetched) // the caller has checked the image
			encoded[url] = image
		}
		m.Size += len(image.URL) - len(p.URL)
		p.URL, p.pixels, p.remote = image.URL, image.pixels, false
	}
	return true
}

func (c *Conversation) remoteParts(yield func(*Message, *Part) bool) {
	for i := range c.Messages {
		m := &c.Messages[i]
		for k := range m.Content {
			if m.Content[k].remote && !yield(m, &m.Content[k]) {
				return
			}
		}
	}
}

// ImageParam returns the path of the first remote image with this URL (empty: any), or "".
func (c *Conversation) ImageParam(url string) string {
	for _, p := range c.remoteParts {
		if url == "" || p.URL.Is(url) {
			return c.at(p.URL, new(field.Error)).Path
		}
	}
	return ""
}

// checkFetched returns an error for the first remote image, if there is one: it was not fetched.
func (c *Conversation) checkFetched() *apierror.Error {
	for _, p := range c.remoteParts {
		return c.at(p.URL, field.Invalid("is an image elsewhere, and this server does not fetch images "+
			"unless image_fetch is on; send it as a data URL (data:image/png;base64,…)")).APIError()
	}
	return nil
}
