package planbackend

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// maxBody bounds a request body after decompression, in bytes.
const maxBody = 64 << 20

// decoder is shared by all bodies. It has no goroutines.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBody))
})

// respond passes a request of the model on, as the model reads it.
func (b *Backend) respond(w http.ResponseWriter, r *http.Request, login *Login) {
	if r.Header.Get("Content-Encoding") == "zstd" {
		body, err := decompress(r.Body)
		if err != nil {
			writeJSON(w, http.StatusBadRequest, object{"detail": "The body is no zstd: " + err.Error()})
			return
		}
		r.Body, r.ContentLength = io.NopCloser(body), int64(body.Len())
		r.Header.Del("Content-Encoding")
	}
	b.model(w, r, login)
}

// serveSocket passes the handshake of a WebSocket on, or refuses it so that Codex uses HTTP.
func (b *Backend) serveSocket(w http.ResponseWriter, r *http.Request, login *Login) {
	if b.opts.HTTP {
		writeJSON(w, http.StatusUpgradeRequired, object{"detail": "There are no WebSockets."})
		return
	}
	b.model(w, r, login)
}

func (b *Backend) model(w http.ResponseWriter, r *http.Request, login *Login) {
	r.URL.Path = "/v1/responses"
	model := b.opts.Model
	if login.opts.Model != nil {
		model = login.opts.Model
	}
	model.ServeHTTP(w, r.WithContext(scriptedmodel.WithPlan(r.Context(), plan{login})))
}

func decompress(body io.Reader) (*bytes.Reader, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	packed, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err != nil {
		return nil, err
	}
	whole, err := d.DecodeAll(packed, nil)
	return bytes.NewReader(whole), err
}
