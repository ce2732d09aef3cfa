package reqbody

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// ErrEncoding means that a body has a Content-Encoding other than gzip, zstd or identity.
var ErrEncoding = errors.New("unknown content encoding")

// CorruptError means that a body is not what its Content-Encoding says.
type CorruptError struct {
	Encoding string // gzip or zstd
	cause    error
}

// Error names the encoding.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the body is not %s: %v", e.Encoding, e.cause)
}

// Encoding returns the Content-Encoding of a request. Several values are joined with commas.
func Encoding(r *http.Request) string {
	return strings.Join(r.Header.Values("Content-Encoding"), ", ")
}

// encodingOf returns the encoding of a body: gzip, zstd, or "" for none. For others, it returns ErrEncoding.
func encodingOf(r *http.Request) (string, error) {
	switch strings.ToLower(strings.TrimSpace(Encoding(r))) {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	case "zstd":
		return "zstd", nil
	}
	return "", ErrEncoding
}

// decoder decodes a body while it is read.
type decoder struct {
	encoding string
	body     *encodedBody
	claim    *claims.Claim // of the body; the memory of the decoder is added to it
	decoded  io.Reader     // the decoded body; nil before the first Read
	close    func()        // frees what only a zstd decoder has to free; else it does nothing
}

// encodedBody is the body from which a decoder reads. It keeps the error of a failed read, so that
// decoder.Read can distinguish this error from an error of the decoder.
type encodedBody struct {
	io.Reader
	err error
}

func (b *encodedBody) Read(buf []byte) (int, error) {
	n, err := b.Reader.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Read returns decoded bytes. Errors, besides io.EOF: the error from reading the body, ErrNoMemory, or a
// *CorruptError.
func (d *decoder) Read(buf []byte) (n int, err error) {
	if d.decoded == nil {
		err = d.open()
	}
	if err == nil {
		n, err = d.decoded.Read(buf)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, ErrNoMemory):
		return n, err
	case d.body.err != nil:
		return n, d.body.err
	}
	return n, &CorruptError{d.encoding, err}
}

func (d *decoder) open() error {
	if d.encoding == "gzip" {
		if !d.claim.Grow(gzipMemory) {
			return ErrNoMemory
		}
		reader, err := gzip.NewReader(d.body)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // an empty body is not valid gzip
		}
		if err != nil {
			return err
		}
		d.decoded = reader
		return nil
	}
	reader, err := newZstdDecoder(d.body, d.claim)
	if err != nil {
		return err
	}
	d.decoded, d.close = reader, reader.Close
	return nil
}

const (
	// maxWindow bounds the decoded bytes to which zstd may refer back, as RFC 8878 recommends.
	maxWindow = 8 << 20
	// A zstd decoder has a buffer. For a window of largeWindow bytes or more, the buffer is windowExcess
	// bytes larger than the window. For a smaller window, it is twice as large as the window.
	largeWindow, windowExcess = 2 << 20, 1 << 20
	// zstdMemory is how many bytes of memory a zstd decoder takes besides the buffer: for tables, and for
	// three parts of a block of up to 128 KiB.
	zstdMemory = 512 << 10
	// gzipMemory is how much memory a gzip decoder takes, in bytes. Its window has 32 KiB.
	gzipMemory = 64 << 10
)

// newZstdDecoder returns a decoder for a body, and claims the decoder's memory. The decoder allocates the
// window that the head of a frame declares. No later frame may have a larger window than the first
// frame. But if the first frame has no data, windows may have maxWindow bytes. The error is ErrNoMemory, or
// an error of the decoder.
func newZstdDecoder(encoded io.Reader, claim *claims.Claim) (*zstd.Decoder, error) {
	body := bufio.NewReader(encoded)
	start, _ := body.Peek(zstd.HeaderMaxSize) // the error is ignored: the decoder gets it, too
	window := uint64(maxWindow)
	var head zstd.Header
	known := head.Decode(start) == nil && !head.Skippable
	if known && (!head.HasFCS || head.FrameContentSize > 0) {
		if window = head.WindowSize; head.SingleSegment { // such a frame declares only the size of its content
			window = head.FrameContentSize
		}
		window = min(max(window, zstd.MinWindowSize), maxWindow)
	}
	excess := window
	if window >= largeWindow {
		excess = windowExcess
	}
	if !claim.Grow(zstdMemory + int64(window+excess)) {
		return nil, ErrNoMemory
	}
	return zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
}
