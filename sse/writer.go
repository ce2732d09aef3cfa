package sse

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// ContentType is the media type of a stream of server-sent events.
const ContentType = "text/event-stream"

// bufferSize is the number of bytes a Writer holds back before it passes them
// on by itself. It is one page: a batch of small frames fits, and a large frame
// goes out in pieces, each under a deadline of its own.
const bufferSize = 4096

// WriterOptions are the limits of a [Writer].
type WriterOptions struct {
	// WriteTimeout is how long the client may take to accept one write (at most
	// 4096 bytes) or one flush. Zero or less: no limit.
	WriteTimeout time.Duration

	// Keepalive is the silence after which a comment is due, see
	// [Writer.Keepalive]. Zero or less: never.
	Keepalive time.Duration
}

// Writer writes server-sent events onto an HTTP response.
//
// Frames are collected and reach the client at the next [Writer.Flush], or when
// 4096 bytes have come together: a caller that has several events at hand
// writes them all and flushes once. Writing a frame allocates nothing.
//
// While a write or a flush runs, and only then, the connection has a write
// deadline. So neither an idle HTTP/2 stream nor the next request on a
// kept-alive connection is hit by it. A response writer without deadlines is
// written to without them. A write deadline that the server itself has set
// (http.Server.WriteTimeout) is lifted by that, unless WriteTimeout is zero.
//
// The first error is kept and returned by every later call. A Writer must not
// be used by several goroutines at once.
type Writer struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	opts WriterOptions

	buf      []byte    // frames not yet passed on, never more than bufferSize
	started  bool      // the header has been written
	lastSent time.Time // when the client was last sent anything
	deadline time.Time // of the running write; zero: none is set
	noLimit  bool      // the response writer knows no deadlines
	err      error     // the first failure, or ErrClosed
}

// NewWriter returns a Writer for the response w. Nothing is written yet.
func NewWriter(w http.ResponseWriter, opts WriterOptions) *Writer {
	return &Writer{
		w:        w,
		rc:       http.NewResponseController(w),
		opts:     opts,
		buf:      make([]byte, 0, bufferSize),
		lastSent: time.Now(),
		noLimit:  opts.WriteTimeout <= 0,
	}
}

// Start sets the headers of an event stream, writes the status 200 and flushes.
// Without it the first flush does the same. The second call and later ones just
// flush. The error is that of [Writer.Flush].
func (w *Writer) Start() error {
	return w.Flush()
}

// Started reports whether the status and the headers have been written, so that
// an error can no longer be told by the status.
func (w *Writer) Started() bool {
	return w.started
}

// Flush sends what has been written so far to the client. Its error matches
// [ErrStalled] if the client did not take it in time, [http.ErrNotSupported] if
// the response writer cannot flush (the events are then useless to a client that
// waits for them), or is what the connection said.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	defer w.disarm()
	w.arm()
	w.passOn()
	if w.err != nil {
		return w.err
	}
	if err := w.rc.Flush(); err != nil {
		w.fail("flush", err)
	}
	w.lastSent = time.Now()
	return w.err
}

// Close flushes what is left. Later calls return [ErrClosed], so that nothing can
// follow the end of a stream. A stream that was never begun stays so: the handler
// may still answer otherwise. Close does not end the HTTP response: the handler
// does so by returning.
func (w *Writer) Close() error {
	if w.err == nil && (w.started || len(w.buf) > 0) {
		w.err = w.Flush()
	}
	if w.err != nil {
		return w.err
	}
	w.err = ErrClosed
	return nil
}

// passOn hands the buffer to the response writer, after the header if that is
// still to come.
func (w *Writer) passOn() {
	if w.err != nil {
		return
	}
	if !w.started {
		w.started = true
		h := w.w.Header()
		h.Set("Content-Type", ContentType)
		// no-transform keeps intermediaries from compressing, hence buffering.
		h.Set("Cache-Control", "no-cache, no-transform")
		// The same for nginx, which buffers proxied responses by default.
		h.Set("X-Accel-Buffering", "no")
		w.w.WriteHeader(http.StatusOK)
	}
	if len(w.buf) == 0 {
		return
	}
	if _, err := w.w.Write(w.buf); err != nil {
		w.fail("write", err)
	}
	w.buf = w.buf[:0]
}

// fail keeps err as the end of the stream. All protocols report a passed
// deadline by the same error.
func (w *Writer) fail(doing string, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.err = fmt.Errorf("%w: %s: %w", ErrStalled, doing, err)
		return
	}
	w.err = fmt.Errorf("sse: %s: %w", doing, err)
}
