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

// answer is the answer to a request over a WebSocket. Each event of a stream is one message. An
// error is one message, too.
type answer struct {
	ctx     context.Context
	conn    *websocket.Conn
	message *message // the request
	header  http.Header
	status  int
	buf     []byte      // the line under way, or the body
	cut     *time.Timer // ends the reading of the request at the deadline; nil: there is no deadline
	err     error       // of the connection
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	if a.header.Get("Content-Type") != sse.ContentType {
		a.buf = append(a.buf, p...) // an error, which is short
		return len(p), nil
	}
	n := len(p)
	for a.err == nil {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			a.buf = append(a.buf, p...)
			return n, nil
		}
		a.buf = append(a.buf, p[:end]...)
		if data, ok := bytes.CutPrefix(a.buf, []byte("data: ")); ok {
			a.send(data)
		}
		a.buf, p = a.buf[:0], p[end+1:]
	}
	return 0, a.err
}

// send sends a message.
func (a *answer) send(message []byte) {
	ctx, cancel := context.WithTimeout(a.ctx, writeTimeout)
	defer cancel()
	a.err = a.conn.Write(ctx, websocket.MessageText, message)
}

// FlushError is called by [http.ResponseController].
func (a *answer) FlushError() error { return a.err }

// SetReadDeadline is called by [http.ResponseController]. After the deadline an answer can still be
// sent, but no other request can follow.
func (a *answer) SetReadDeadline(at time.Time) error {
	a.close()
	if !at.IsZero() {
		a.cut = time.AfterFunc(time.Until(at), func() { _ = a.message.to.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

// close ends the deadline.
func (a *answer) close() {
	if a.cut != nil {
		a.cut.Stop()
	}
}

// errorEvent has the fields that precede the body of an error over a WebSocket.
type errorEvent struct {
	Type    string            `json:"type"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
}

// finish sends the answer if it is an error. Events were sent before.
func (a *answer) finish() error {
	if a.err != nil || a.status == 0 || a.status == http.StatusOK || !json.Valid(a.buf) {
		return a.err
	}
	e := errorEvent{Type: "error", Status: a.status, Headers: map[string]string{}}
	for name := range a.header {
		if strings.HasPrefix(name, "Retry-") || name == "X-Should-Retry" {
			e.Headers[strings.ToLower(name)] = a.header.Get(name)
		}
	}
	message := wirejson.Append(nil, e)
	message[len(message)-1] = ','
	a.send(append(message, a.buf[1:]...))
	return a.err
}
