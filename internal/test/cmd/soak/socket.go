package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// socket requests two texts over one WebSocket, or two if a reload closes the first one in between.
func (c *client) socket() {
	var conn *websocket.Conn
	defer func() {
		if conn != nil {
			_ = conn.CloseNow()
		}
	}()
	for range 2 {
		c.counts.add(func(counts *counts) { counts.asked++ })
		id := c.id()
		text, prompt := c.text(id, 2000)
		q := query{what: "websocket " + id, path: pathResponses, stream: true, want: []said{{Text: text, Finish: "stop"}}}
		request := fields{"type": "response.create", "model": c.model, "store": false, "input": prompt}
		began := time.Now()
		var events []byte
		var err error
		for range maxAttempts {
			if conn == nil {
				if conn, err = c.dial(); err != nil {
					continue
				}
			}
			if events, err = askSocket(conn, encode(request)); err == nil || len(events) > 0 {
				break
			}
			conn = nil // closed before the request was answered
		}
		got, readErr := new(apiclient.Answer), err
		if err == nil {
			got, readErr = readSocket(events)
		}
		if !c.judge(q, began, got, readErr) {
			return
		}
	}
}

func (c *client) dial() (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	c.counts.add(func(counts *counts) { counts.opened++ })
	conn, _, err := websocket.Dial(ctx, c.site.URL+pathResponses, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + keyOf(c.user)}},
	})
	if err != nil {
		c.counts.add(func(counts *counts) { counts.lost++ })
		return nil, err
	}
	conn.SetReadLimit(4 << 20)
	return conn, nil
}

// askSocket sends a request and returns the messages of its answer, each with a line end.
func askSocket(conn *websocket.Conn, request string) (events []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, []byte(request)); err != nil {
		return nil, err
	}
	for {
		_, event, err := conn.Read(ctx)
		if err != nil {
			return events, err
		}
		events = append(append(events, event...), '\n')
		switch eventType(event) {
		case "response.completed", "response.incomplete", "response.failed", "error":
			return events, nil
		}
	}
}

func eventType(event []byte) string {
	var e struct{ Type string }
	_ = json.Unmarshal(event, &e) // without a type it is no event
	return e.Type
}

// readSocket reads the messages of an answer, which are those of a stream.
func readSocket(events []byte) (*apiclient.Answer, error) {
	var stream bytes.Buffer
	for event := range bytes.Lines(events) {
		event = bytes.TrimSpace(event)
		if eventType(event) == "error" {
			return apiclient.ReadError(event, apiclient.Responses)
		}
		fmt.Fprintf(&stream, "event: %s\ndata: %s\n\n", eventType(event), event)
	}
	return apiclient.Read(stream.Bytes(), apiclient.Responses, true, 1)
}
