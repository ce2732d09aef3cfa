package prompt

import (
	"iter"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// MaxRemoteImages is how many different images of a request may be fetched.
const MaxRemoteImages = 16

// maxFetchedBytes bounds the fetched images of a request, as data URLs. Each counts as
// often as the request names it, since Codex gets as many copies.
const maxFetchedBytes = 64 << 20

// RemoteImages returns the https URLs of the images that have to be fetched, each once,
// in the order of the request. The images have to be passed to [Conversation.SetImages]
// before the request is planned.
func (c *Conversation) RemoteImages() []string {
	var urls []string
	seen := map[string]struct{}{}
	for p := range c.remoteParts() {
		url := p.URL.Text()
		if _, again := seen[url]; !again {
			seen[url] = struct{}{}
			urls = append(urls, url)
		}
	}
	return urls
}

// CheckRemoteImages returns an error if there are more remote images than may be
// fetched.
func (c *Conversation) CheckRemoteImages() *field.Error {
	if n := len(c.RemoteImages()); n > MaxRemoteImages {
		return field.Invalid("must hold at most %d remote images, not %d", MaxRemoteImages, n)
	}
	return nil
}

// SetImages replaces https URLs by images. data has a data URL in base64, of a PNG,
// JPEG, GIF or WebP image, for each URL that was fetched. Others stay, and planning the
// request then fails. SetImages reports false and changes nothing if the images are too
// large together, each counted as often as it is named.
func (c *Conversation) SetImages(data map[string]string) bool {
	total := 0
	for p := range c.remoteParts() {
		if total += len(data[p.URL.Text()]); total > maxFetchedBytes {
			return false
		}
	}
	encoded := make(map[string]jsontext.Value, len(data)) // once for all that show the image
	for p, m := range c.remoteParts() {
		url := p.URL.Text()
		fetched, ok := data[url]
		if !ok {
			continue
		}
		v, known := encoded[url]
		if !known {
			v = jsontext.AppendString(make([]byte, 0, len(fetched)+2), fetched)
			encoded[url] = v
		}
		m.Size += len(v) - len(p.URL)
		p.URL, p.remote = v, false
	}
	return true
}

// remoteParts iterates over the images that have to be fetched, with their messages.
func (c *Conversation) remoteParts() iter.Seq2[*Part, *Message] {
	return func(yield func(*Part, *Message) bool) {
		for i := range c.Messages {
			m := &c.Messages[i]
			for k := range m.Content {
				if m.Content[k].remote && !yield(&m.Content[k], m) {
					return
				}
			}
		}
	}
}

// FindRemote returns the first message, and the part of its content, with a remote
// image of this URL, or of any if the URL is empty.
func (c *Conversation) FindRemote(url string) (message, part int, found bool) {
	for i := range c.Messages {
		for k, p := range c.Messages[i].Content {
			if p.remote && (url == "" || p.URL.Is(url)) {
				return i, k, true
			}
		}
	}
	return 0, 0, false
}

// NotFetched returns the error of a remote image that was not fetched.
func NotFetched() *field.Error {
	return field.Invalid("is an image elsewhere, and this server does not fetch images unless image_fetch is on; " +
		"send it as a data URL (data:image/png;base64,…)")
}
