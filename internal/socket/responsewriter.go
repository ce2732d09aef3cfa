package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
	"github.com/caddy-codex/caddy-codex/sse"
)

// responseWriter sends the answer to a request as messages of a WebSocket. Each event of a stream
// is one message. An error is one message, too.
type responseWriter struct {
	ctx           context.Context
	conn          *websocket.Conn
	message       *message // the request
	header        http.Header
	status        int
	buf           []byte      // the incomplete line of a stream, or the body of an error
	deadlineTimer *time.Timer // ends the reading of the request at the deadline; nil: there is no deadline
	err           error       // why a message could not be sent; nil: all were sent
}

// Header implements [http.ResponseWriter].
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *responseWriter) WriteHeader(status int) { w.status = status }

// Write implements [http.ResponseWriter].
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.header.Get("Content-Type") != sse.ContentType {
		w.buf = append(w.buf, p...) // the body of an error, which is short
		return len(p), nil
	}
	n := len(p)
	for w.err == nil {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.buf = append(w.buf, p...)
			return n, nil
		}
		w.buf = append(w.buf, p[:end]...)
		if data, ok := bytes.CutPrefix(w.buf, []byte("data: ")); ok {
			w.send(data)
		}
		w.buf, p = w.buf[:0], p[end+1:]
	}
	return 0, w.err
}

// send sends a message.
func (w *responseWriter) send(message []byte) {
	ctx, cancel := context.WithTimeout(w.ctx, writeTimeout)
	defer cancel()
	w.err = w.conn.Write(ctx, websocket.MessageText, message)
}

// FlushError is called by [http.ResponseController].
func (w *responseWriter) FlushError() error { return w.err }

// SetReadDeadline is called by [http.ResponseController]. After the deadline an answer can still be
// sent, but no other request can follow.
func (w *responseWriter) SetReadDeadline(at time.Time) error {
	w.stopTimer()
	if !at.IsZero() {
		w.deadlineTimer = time.AfterFunc(time.Until(at), func() { _ = w.message.pipeWriter.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

// stopTimer drops the deadline for reading the request, if there is one.
func (w *responseWriter) stopTimer() {
	if w.deadlineTimer != nil {
		w.deadlineTimer.Stop()
	}
}

// errorEvent has the first fields of an error message. The fields of the error's body follow them.
type errorEvent struct {
	Type    string            `json:"type"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
}

// finish sends the answer if it is an error. The events of a stream have been sent by Write.
func (w *responseWriter) finish() error {
	if w.err != nil || w.status == 0 || w.status == http.StatusOK || !json.Valid(w.buf) {
		return w.err
	}
	e := errorEvent{Type: "error", Status: w.status, Headers: map[string]string{}}
	for name := range w.header {
		if strings.HasPrefix(name, "Retry-") || name == "X-Should-Retry" {
			e.Headers[strings.ToLower(name)] = w.header.Get(name)
		}
	}
	message := wirejson.Append(nil, e)
	message[len(message)-1] = ','
	w.send(append(message, w.buf[1:]...))
	return w.err
}
