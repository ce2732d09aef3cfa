package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// bodySilence is how long a client may be silent within its body. Caddy's own
// timeout (read_body), for all of it, is not touched.
const bodySilence = 30 * time.Second

// readBody reads a request's body to its end, which streaming over HTTP/1
// needs, up to the limit. Caddy's own limit (request_body) may be lower. The end
// of the request's context ends the reading as well, and so does a client's
// silence: a request that is being read keeps the processes of its configuration.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *openai.Error) {
	if r.ContentLength > g.opts.MaxBody {
		return nil, openai.PayloadTooLarge(g.opts.MaxBody)
	}
	expiry := newReadCut(w)
	defer expiry.close() // also if a Read panics
	stop := context.AfterFunc(r.Context(), expiry.cut)
	defer stop()
	silence := time.AfterFunc(bodySilence, expiry.cut)
	defer silence.Stop()
	limited := http.MaxBytesReader(w, r.Body, g.opts.MaxBody)
	body, err := readAll(&heard{limited, silence}, r.ContentLength)
	if expiry.close() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, openai.PayloadTooLarge(tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, openai.BodyTimeout()
	}
	if err != nil {
		return nil, openai.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
}

// heard is a body whose silence is timed.
type heard struct {
	body    io.Reader
	silence *time.Timer
}

// Read reads. A timer that has gone off already stays so: the deadline is set.
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.body.Read(p)
	if n > 0 && h.silence.Stop() {
		h.silence.Reset(bodySilence)
	}
	return n, err
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
