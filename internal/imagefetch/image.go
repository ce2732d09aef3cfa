package imagefetch

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// image fetches one image and returns it as a data URL. Its error is a reason.
func (f *Fetcher) image(ctx context.Context, url string, total *budget) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.limits.imageTime, errImageTime(f.limits.imageTime))
	defer cancel()
	response, err := f.get(ctx, url)
	if err != nil {
		return "", explain(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", errStatus(response.StatusCode)
	}
	image, err := f.read(response, total)
	if err != nil {
		return "", explain(ctx, err)
	}
	return image, nil
}

func (f *Fetcher) get(ctx context.Context, url string) (*http.Response, error) {
	u, err := f.checkURL(url)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errURL
	}
	request.Header.Set("User-Agent", "caddy-codex")
	request.Header.Set("Accept", strings.Join(prompt.ImageTypes, ", "))
	request.Header.Set("Accept-Encoding", "identity")
	return f.client.Do(request)
}

const (
	sniffed = 512     // bytes that http.DetectContentType reads
	maxHint = 1 << 20 // bytes at most that are allocated because of a Content-Length
)

// read reads an image into a data URL. It takes the type from the content, since
// headers are often wrong.
func (f *Fetcher) read(response *http.Response, total *budget) (string, error) {
	body := &meter{from: response.Body, left: f.limits.imageBytes, full: errImageBytes(f.limits.imageBytes), total: total}
	if response.ContentLength > body.left {
		return "", body.full
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	switch {
	case err == io.EOF:
		return "", errEmpty
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", err
	}
	media := http.DetectContentType(head[:n])
	if !slices.Contains(prompt.ImageTypes, media) {
		return "", errNoImage
	}
	var out strings.Builder
	out.Grow(len("data:image/jpeg;base64,") + base64.StdEncoding.EncodedLen(int(min(max(response.ContentLength, 0), maxHint))))
	out.WriteString("data:" + media + ";base64,")
	encoder := base64.NewEncoder(base64.StdEncoding, &out)
	_, _ = encoder.Write(head[:n]) // a strings.Builder returns no errors
	if _, err := io.Copy(encoder, body); err != nil {
		return "", err
	}
	_ = encoder.Close()
	return out.String(), nil
}

// budget holds how many bytes all images of a request may still take.
type budget struct {
	left atomic.Int64
	full reason
}

func newBudget(n int64) *budget {
	b := &budget{full: errTotalBytes(n)}
	b.left.Store(n)
	return b
}

// meter reads a body and fails once the image, or all images of the request
// together, are larger than allowed.
type meter struct {
	from  io.Reader
	left  int64 // of this image, in bytes
	full  reason
	total *budget
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if m.left -= int64(n); m.left < 0 {
		return 0, m.full
	}
	if m.total.left.Add(-int64(n)) < 0 {
		return 0, m.total.full
	}
	return n, err
}
