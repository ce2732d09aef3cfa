package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// client sends requests over one connection with little work, so that it is not what is measured.
type client struct {
	form *form
	addr string
	conn net.Conn
	r    *bufio.Reader
}

// clientTimeout bounds one request.
const clientTimeout = 2 * time.Minute

func dial(ctx context.Context, s *server) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &client{form: s.form, addr: s.addr, conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

type request struct {
	body  []byte
	order order
	heard func(onTheWay time.Duration) // of each record with a time; may be nil
	begun func()                       // called at the first record; may be nil
}

// newRequest returns a request for a stream, for both APIs: history, and a prompt of padding and o.
func newRequest(o order, history []string, padding string) request {
	messages := make([]map[string]string, 0, len(history)+1)
	for i, text := range history {
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	messages = append(messages, map[string]string{"role": "user", "content": padding + o.prompt()})
	body, err := json.Marshal(map[string]any{"model": "gpt-5", "stream": true, "messages": messages})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return request{body: body, order: o}
}

// result is what a client measures of an answer.
type result struct {
	first  time.Duration // to the first chunk with text
	chunks int           // with text
	bytes  int           // of text
}

// do sends a request and reads its answer to the end, all of which it checks.
func (c *client) do(q request) (result, error) {
	start := time.Now()
	_ = c.conn.SetDeadline(start.Add(clientTimeout))
	response, err := c.post(c.form.path, q.body)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	return c.form.readAnswer(response.Body, q, start)
}

// ask sends a request to a path whose answer is no stream.
func (c *client) ask(path string, q request) (result, error) {
	start := time.Now()
	_ = c.conn.SetDeadline(start.Add(clientTimeout))
	response, err := c.post(path, q.body)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return result{first: time.Since(start)}, err
}

// post sends a request and reads the head of its answer, whose status must be 200.
func (c *client) post(path string, body []byte) (*http.Response, error) {
	head := "POST " + path + " HTTP/1.1\r\nHost: " + c.addr + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	buffers := net.Buffers{[]byte(head), body}
	if _, err := buffers.WriteTo(c.conn); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return response, nil
}

// form has the parts of the events of an API.
type form struct {
	path             string
	text, stop, done []byte // the member with a text, that of an end that is none of a limit, the last event
}

var (
	chatForm     = &form{"/v1/chat/completions", []byte(`"content":"`), []byte(`"finish_reason":"stop"`), []byte("[DONE]")}
	messagesForm = &form{"/v1/messages", []byte(`"text":"`), []byte(`"stop_reason":"end_turn"`), []byte(`{"type":"message_stop"`)}
)

var dataField = []byte("data: ")

// readAnswer reads the events of an answer.
func (f *form) readAnswer(body io.Reader, q request, start time.Time) (got result, err error) {
	lines := bufio.NewReaderSize(body, 16<<10)
	rec := records{size: q.order.size, heard: q.heard}
	stopped := false
	for {
		line, err := readLine(lines)
		if err != nil {
			return got, fmt.Errorf("after %d of %d records: %w", rec.next, q.order.deltas, err)
		}
		data, found := bytes.CutPrefix(line, dataField)
		if !found {
			continue // a comment, or the end of an event
		}
		if bytes.HasPrefix(data, f.done) {
			break
		}
		text := member(data, f.text)
		if len(text) == 0 {
			stopped = stopped || bytes.Contains(data, f.stop)
			continue
		}
		if got.chunks++; got.chunks == 1 {
			got.first = time.Since(start)
			if q.begun != nil {
				q.begun()
			}
		}
		got.bytes += len(text)
		if err := rec.add(text, time.Now().UnixNano()); err != nil {
			return got, err
		}
	}
	if _, err := io.Copy(io.Discard, lines); err != nil { // the end of the body
		return got, err
	}
	if rec.next != q.order.deltas || got.bytes != q.order.deltas*q.order.size || !stopped {
		return got, fmt.Errorf("%d records with %d bytes came of %d with %d; its end came: %t", rec.next, got.bytes, q.order.deltas, q.order.deltas*q.order.size, stopped)
	}
	return got, nil
}

// padding returns a text of so many bytes, which has some of what has to be escaped.
func padding(size int) string {
	const line = "The quick brown fox \"jumps\" over the lazy dog, and so on and on; ümläuts are few.\n"
	return strings.Repeat(line, size/len(line)+1)[:size/len(line)*len(line)]
}
