package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// readBody reads a request's body to its end, which streaming over HTTP/1
// needs, up to the limit. Caddy's own limit (request_body) may be lower. The end
// of the request's context ends the reading as well.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *openai.Error) {
	if r.ContentLength > g.opts.MaxBody {
		return nil, openai.PayloadTooLarge(g.opts.MaxBody)
	}
	stop := context.AfterFunc(r.Context(), func() {
		// A writer that knows no deadlines has a client that cannot be slow.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	})
	defer stop()
	limited := http.MaxBytesReader(w, r.Body, g.opts.MaxBody)
	body, err := readAll(limited, r.ContentLength)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, openai.PayloadTooLarge(tooLarge.Limit)
	}
	if err != nil {
		return nil, openai.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
}

// maxPrealloc bounds the memory that a mere header can claim.
const maxPrealloc = 1 << 20

// readAll is io.ReadAll with room for the announced length, so that a body is
// not copied while it grows.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	body := make([]byte, 0, max(512, min(announced+1, maxPrealloc)))
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
	}
}
