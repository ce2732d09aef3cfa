package main

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// replyTimeout bounds the writing of an answer by the tape.
const replyTimeout = 10 * time.Second

const methodToolCall = "item/tool/call"

// tape is a transport that records its messages.
type tape struct {
	transport codexrpc.Transport

	mu      sync.Mutex
	entries []recorder.Entry
	answer  string // the result of each item/tool/call; if empty, the client answers

	writing sync.Mutex // the tape writes answers beside the connection
	replies sync.WaitGroup
}

// Read returns the next message that the tape does not answer itself.
func (t *tape) Read() ([]byte, error) {
	for {
		line, err := t.transport.Read()
		if err != nil {
			return nil, err
		}
		answer := t.add(recorder.FromServer, line)
		if answer == "" || gjson.GetBytes(line, "method").Str != methodToolCall {
			return line, nil
		}
		reply := fmt.Appendf(nil, `{"id":%s,"result":%s}`, gjson.GetBytes(line, "id").Raw, answer)
		// On another goroutine, since a reader must not wait for the app-server to
		// read. If the write fails, the next one of the connection fails too.
		t.replies.Go(func() { _ = t.Write(reply, replyTimeout) })
	}
}

// Write writes a message of the client.
func (t *tape) Write(message []byte, timeout time.Duration) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.add(recorder.ToServer, message)
	return t.transport.Write(message, timeout)
}

// Close closes the transport.
func (t *tape) Close() error {
	err := t.transport.Close()
	t.replies.Wait()
	return err
}

// add records a message. It returns the answer for tool calls.
func (t *tape) add(dir recorder.Dir, message []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = append(t.entries, recorder.Entry{Dir: dir, Message: bytes.Clone(message)})
	return t.answer
}

// answerCalls makes the tape answer tool calls.
func (t *tape) answerCalls(result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = result
}

func (t *tape) calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.entries {
		if e.Dir == recorder.FromServer && gjson.GetBytes(e.Message, "method").Str == methodToolCall {
			n++
		}
	}
	return n
}

// take returns the record and clears it.
func (t *tape) take() []recorder.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := t.entries
	t.entries = nil
	return entries
}
