package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// socketWriter sends the answer to a request as messages of a WebSocket. Each event of a stream becomes
// one message. An error, which is written like the answer to an HTTP request, becomes one message, too.
// A socketWriter is not safe for concurrent use.
type socketWriter struct {
	quiet         // a WebSocket has pings of its own
	ctx           context.Context
	conn          *websocket.Conn
	message       *socketMessage // the request
	header        http.Header
	status        int         // of an error, or 200 if a stream has begun; 0: nothing was written
	buf           []byte      // the body of an error
	deadlineTimer *time.Timer // ends the reading of the request at the deadline; nil: there is no deadline
	err           error       // why a message could not be sent; nil: all were sent
}

// Header implements [http.ResponseWriter].
func (w *socketWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *socketWriter) WriteHeader(status int) { w.status = status }

// Write implements [http.ResponseWriter] for the body of an error, which is short.
func (w *socketWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	return len(p), nil
}

// WriteEvent sends the data of an event. It does not send the event's name, which the data contain, too.
func (w *socketWriter) WriteEvent(_ string, data []byte) error {
	if w.err == nil {
		w.status = http.StatusOK
		w.send(data)
	}
	return w.err
}

// Started reports whether there was an event, or a flush.
func (w *socketWriter) Started() bool { return w.status != 0 }

// Flush begins a stream, if it has not begun.
func (w *socketWriter) Flush() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.err
}

// Close does nothing: the WebSocket stays open.
func (w *socketWriter) Close() error { return w.err }

func (w *socketWriter) send(message []byte) {
	ctx, cancel := context.WithTimeout(w.ctx, WriteTimeout)
	defer cancel()
	w.err = w.conn.Write(ctx, websocket.MessageText, message)
}

// SetReadDeadline is called by [http.ResponseController]. After the deadline, reading the request fails.
// An answer can still be sent, but no other request can follow.
func (w *socketWriter) SetReadDeadline(at time.Time) error {
	w.stopTimer()
	if !at.IsZero() {
		w.deadlineTimer = time.AfterFunc(time.Until(at), func() { _ = w.message.pipeWriter.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

func (w *socketWriter) stopTimer() {
	if w.deadlineTimer != nil {
		w.deadlineTimer.Stop()
	}
}

// socketError has the first fields of a message with an error. The fields of the error's body follow.
type socketError struct {
	Type    string            `json:"type"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
}

// finish sends the answer if it is an error. It does nothing if the answer is a stream, whose events
// have been sent already.
func (w *socketWriter) finish() error {
	if w.err != nil || w.status == 0 || w.status == http.StatusOK || !json.Valid(w.buf) {
		return w.err
	}
	e := socketError{Type: "error", Status: w.status, Headers: map[string]string{}}
	for name := range w.header {
		if strings.HasPrefix(name, "Retry-") || name == "X-Should-Retry" {
			e.Headers[strings.ToLower(name)] = w.header.Get(name)
		}
	}
	message := wirejson.Append(nil, e)
	message[len(message)-1] = ',' // instead of }: w.buf follows without its {
	w.send(append(message, w.buf[1:]...))
	return w.err
}
