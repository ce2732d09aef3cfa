package socket

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/sse"
)

// FuzzAnswer: each event of a stream is a message, however the stream is cut.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("{\"a\":1}\x00event\x00data: "), []byte{1})
	f.Add([]byte("\x00"+strings.Repeat("x", 9000)+"\x00é"), []byte{255, 3})
	f.Add([]byte(": keepalive"), []byte{})
	accepted := make(chan *websocket.Conn, 1)
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			accepted <- conn
			<-over
		}
	}))
	defer server.Close()
	defer close(over)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, _, err := websocket.Dial(ctx, server.URL, nil)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = client.CloseNow() }()
	client.SetReadLimit(-1)
	conn := <-accepted
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		data = bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, data) // the events are JSON, which has no line breaks
		events := append(bytes.Split(data, []byte{0}), []byte("the last one"))
		recorder := httptest.NewRecorder()
		w := sse.NewWriter(recorder, sse.WriterOptions{})
		for i, e := range events {
			if err := w.WriteEvent([]string{"", "x"}[i%2], e); err != nil || w.WriteComment("data: no") != nil || w.Flush() != nil {
				t.Fatal(err)
			}
		}
		a := &responseWriter{ctx: t.Context(), conn: conn, header: recorder.Header()}
		written := make(chan error, 1)
		go func() { written <- writePieces(a, recorder.Body.Bytes(), sizes) }()
		for _, want := range events {
			_, got, err := client.Read(t.Context())
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q, %v; want %q", got, err, want)
			}
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	})
}

// writePieces writes a stream in pieces of these sizes.
func writePieces(a *responseWriter, stream, sizes []byte) error {
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(n, 1+int(sizes[i%len(sizes)]))
		}
		if _, err := a.Write(stream[:n]); err != nil {
			return err
		}
		stream = stream[n:]
	}
	return nil
}
