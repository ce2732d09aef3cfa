// Package sse writes server-sent events, the text/event-stream format of the
// WHATWG HTML standard, onto an [net/http.ResponseWriter], and reads them.
//
// [Read] limits the size of an event. A [Writer] has no goroutine: the loop that produces the
// events also asks the Writer when a keepalive is due. The buffer of a Writer has a fixed size, and
// the time of each write can be limited, in case a client stops reading. The package does not
// interpret the events.
package sse

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

var (
	// ErrStalled means that the client did not take the bytes of a [Writer] within the write
	// timeout. The error of the Writer wraps it. The connection cannot be used any more.
	ErrStalled = errors.New("sse: the client stopped reading")

	// ErrClosed is returned by the methods of a [Writer] after Close.
	ErrClosed = errors.New("sse: the stream is closed")

	// ErrEventType is returned for an event type with a line break. Nothing was written.
	ErrEventType = errors.New("sse: the event type holds a line break")
)

// ContentType is the media type of a stream of server-sent events.
const ContentType = "text/event-stream"

// LinesContentType is the media type of a stream of JSON lines, see [Writer.SetLines].
const LinesContentType = "application/x-ndjson"

// bufferSize is one page: a batch of small frames fits, and a large one is written in pieces,
// without a flush. The write timeout applies to each piece separately.
const bufferSize = 4096

// WriterOptions are the limits of a [Writer].
type WriterOptions struct {
	// WriteTimeout bounds one write (of at most 4096 bytes) or one flush. Zero or less: no limit.
	WriteTimeout time.Duration

	// Keepalive is the time without a write after which a keepalive is due. Zero or less: never.
	Keepalive time.Duration
}

// Writer writes server-sent events onto an HTTP response.
//
// Frames are buffered until the next [Writer.Flush], or until there are 4096 bytes. Writing a frame
// allocates nothing. The first flush also writes the status 200 and the headers of an event stream.
//
// The connection gets a write deadline only in [Writer.Close], or when a write or a flush takes too
// long. So no deadline affects an idle HTTP/2 stream or the next request on a kept-alive
// connection. If the response writer does not support deadlines, there are none. A write deadline
// set by the server (http.Server.WriteTimeout) is cleared, unless [WriterOptions].WriteTimeout is
// zero or less.
//
// The first error is kept and returned by every later call. A Writer is not safe for concurrent
// use.
type Writer struct {
	response   http.ResponseWriter
	controller http.ResponseController // of response
	opts       WriterOptions

	buf       []byte          // frames not yet written, at most bufferSize bytes; nil: none
	memory    wirejson.Buffer // the memory of buf
	started   bool            // the header has been written
	lastSent  time.Time       // time of the last write or flush
	pingType  string          // the type of keepalive events; empty: keepalives are comments
	pingData  []byte          // the data of keepalive events, or the keepalive line of a stream of JSON lines
	jsonLines bool            // the stream has JSON lines instead of events
	watchdog  writeWatchdog
	err       error // the first failure, or ErrClosed
}

// NewWriter returns a Writer for a response. Nothing is written yet.
func NewWriter(response http.ResponseWriter, opts WriterOptions) *Writer {
	writer := new(Writer)
	writer.Reset(response, opts)
	return writer
}

// Reset prepares a Writer that is not in use, such as the zero value, for a response, as
// [NewWriter] does. It is for a Writer that is a field of another struct.
func (w *Writer) Reset(response http.ResponseWriter, opts WriterOptions) {
	*w = Writer{response: response, controller: *http.NewResponseController(response), opts: opts, lastSent: time.Now()}
	w.watchdog.limit, w.watchdog.controller = opts.WriteTimeout, *http.NewResponseController(innermost(response))
}

// innermost returns the response writer of the server. Deadlines are set on it directly, since the
// response writers around it may not allow such a call during a write.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// Started reports whether the headers have been written: an error cannot change the status then.
func (w *Writer) Started() bool {
	return w.started
}

// Flush sends the buffered frames to the client. Its error matches [ErrStalled] if the client
// did not take them in time, and [http.ErrNotSupported] if the response writer cannot flush.
// Other errors are those of the connection.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	w.beginWrite()
	w.writeBuffer()
	if w.err == nil {
		if err := w.controller.Flush(); err != nil {
			w.fail("flush", err)
		}
	}
	w.endWrite()
	w.releaseBuffer() // after the flush, so that it delays no event
	return w.err
}

// Close ends the stream and frees the memory of the Writer. It writes the buffered frames without a flush:
// the server sends them with the end of the response. The write timeout applies, too; its deadline is
// cleared by an HTTP/1 server before the next request. If there was neither a frame nor a flush, Close does
// not touch the response, and the handler may still answer in another way. Later calls fail with
// [ErrClosed], or with the first error.
func (w *Writer) Close() error {
	w.watchdog.stop()
	if w.err == nil && len(w.buf) > 0 {
		if w.opts.WriteTimeout > 0 {
			// This replaces a deadline of the server. writeBuffer would clear it before the header, so
			// Close calls writeHeader first. The Write of a stricter response writer sets its own deadline
			// again.
			w.setDeadline(time.Now().Add(w.opts.WriteTimeout))
		}
		w.writeHeader()
		w.writeBuffer()
		w.releaseBuffer()
	}
	if w.err != nil {
		return w.err
	}
	w.err = ErrClosed
	return nil
}

// Never is what NextKeepalive returns if none will be due: a valid duration for a timer.
const Never = time.Duration(math.MaxInt64)

// NextKeepalive returns the time until a keepalive is due if nothing else is sent. It is zero if a
// keepalive is due already, and [Never] if keepalives are off or the stream has failed or is closed.
func (w *Writer) NextKeepalive() time.Duration {
	if w.opts.Keepalive <= 0 || w.err != nil {
		return Never
	}
	return max(0, w.opts.Keepalive-time.Since(w.lastSent))
}

// SetPing makes a keepalive an event instead of a comment, as some clients expect.
func (w *Writer) SetPing(event string, data []byte) { w.pingType, w.pingData = event, data }

// SetLines makes the stream one of JSON lines, for clients that cannot read events. Data are then
// written as lines without a prefix, and ping is the line of a keepalive. Comments are not written.
// SetLines must be called before anything is written. Data must have no line breaks.
func (w *Writer) SetLines(ping []byte) { w.jsonLines, w.pingData = true, ping }

// Keepalive sends a keepalive if nothing has been sent for [WriterOptions].Keepalive: the comment
// ": keepalive", or what [Writer.SetPing] or [Writer.SetLines] has set. If there are buffered
// frames, it sends them instead. It returns the time until Keepalive should be called again, and
// the error of [Writer.Flush].
//
// It is meant for a loop with a timer beside its source of events:
//
//	timer := time.NewTimer(w.NextKeepalive())
//	defer timer.Stop()
//	for {
//		select {
//		case e := <-events:
//			// write e and flush; the timer may run on
//		case <-timer.C:
//			next, err := w.Keepalive()
//			if err != nil {
//				return err
//			}
//			timer.Reset(next)
//		}
//	}
func (w *Writer) Keepalive() (next time.Duration, err error) {
	if w.err != nil {
		return Never, w.err
	}
	if wait := w.NextKeepalive(); wait > 0 {
		return wait, nil
	}
	if len(w.buf) == 0 {
		if err := w.writePing(); err != nil {
			return Never, err
		}
	}
	if err := w.Flush(); err != nil {
		return Never, err
	}
	return w.NextKeepalive(), nil
}

func (w *Writer) writePing() error {
	if w.jsonLines {
		return w.WriteData(w.pingData)
	}
	if w.pingType != "" {
		return w.WriteEvent(w.pingType, w.pingData)
	}
	return w.WriteComment("keepalive")
}

// writeBuffer writes the buffer to the response and, the first time, the header before it.
func (w *Writer) writeBuffer() {
	if w.err == nil && !w.started && w.opts.WriteTimeout > 0 {
		w.setDeadline(time.Time{}) // the server may have set a deadline
	}
	if w.writeHeader(); w.err != nil || len(w.buf) == 0 {
		return
	}
	if _, err := w.response.Write(w.buf); err != nil {
		w.fail("write", err)
	}
	w.buf = w.buf[:0]
}

// writeHeader writes status and headers once. It does not change the write deadline.
func (w *Writer) writeHeader() {
	if w.err != nil || w.started {
		return
	}
	w.started = true
	h := w.response.Header()
	h.Set("Content-Type", ContentType)
	if w.jsonLines {
		h.Set("Content-Type", LinesContentType)
	}
	h.Set("Cache-Control", "no-cache, no-transform") // no-transform: no intermediary compresses, and so buffers
	h.Set("X-Accel-Buffering", "no")                 // nginx buffers proxied responses unless told not to
	w.response.WriteHeader(http.StatusOK)
}

// releaseBuffer gives back the memory of the buffer, which is empty. After a failure it drops the
// memory instead: the server may still be reading the bytes that it could not write in time.
func (w *Writer) releaseBuffer() {
	if w.buf != nil && w.err == nil {
		w.memory.Keep(w.buf)
		w.memory.Release()
	}
	w.buf = nil
}

// fail records an error; doing says what failed. [os.ErrDeadlineExceeded], which HTTP/1 and HTTP/2
// return after a deadline, is wrapped in ErrStalled.
func (w *Writer) fail(doing string, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.err = fmt.Errorf("%w: %s: %w", ErrStalled, doing, err)
		return
	}
	w.err = fmt.Errorf("sse: %s: %w", doing, err)
}
