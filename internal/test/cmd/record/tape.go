package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The directions of an entry.
const (
	toServer   = "to_server"
	fromServer = "from_server"
)

// replyTimeout is how long an answer of the tape's may take to be written.
const replyTimeout = 10 * time.Second

const methodToolCall = "item/tool/call"

// entry is one line of a recording.
type entry struct {
	Dir     string          `json:"dir"`
	Message json.RawMessage `json:"message"`
}

// tape is a transport that writes down what passes through it.
type tape struct {
	transport codexrpc.Transport

	mu      sync.Mutex
	entries []entry
	answer  string // the result for each item/tool/call; empty: the client's affair

	writing sync.Mutex // the tape's answers go out beside the connection's own writes
	replies sync.WaitGroup
}

// Read passes the next message on, unless the tape answers it itself.
func (t *tape) Read() ([]byte, error) {
	for {
		line, err := t.transport.Read()
		if err != nil {
			return nil, err
		}
		answer := t.add(fromServer, line)
		if answer == "" || gjson.GetBytes(line, "method").Str != methodToolCall {
			return line, nil
		}
		reply := fmt.Appendf(nil, `{"id":%s,"result":%s}`, gjson.GetBytes(line, "id").Raw, answer)
		// Not here: who reads must not wait for the app-server to read. Should the
		// write fail, the connection's next one does, too.
		t.replies.Go(func() { _ = t.Write(reply, replyTimeout) })
	}
}

// Write passes a message of the client's on.
func (t *tape) Write(message []byte, timeout time.Duration) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.add(toServer, message)
	return t.transport.Write(message, timeout)
}

// Close ends the transport.
func (t *tape) Close() error {
	err := t.transport.Close()
	t.replies.Wait()
	return err
}

// add writes a message down. It returns the answer for tool calls.
func (t *tape) add(dir string, message []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = append(t.entries, entry{dir, bytes.Clone(message)})
	return t.answer
}

// answerCalls makes the tape answer tool calls from now on.
func (t *tape) answerCalls(result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = result
}

// calls counts the tool calls that were written down.
func (t *tape) calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.entries {
		if e.Dir == fromServer && gjson.GetBytes(e.Message, "method").Str == methodToolCall {
			n++
		}
	}
	return n
}

// take removes what was written down.
func (t *tape) take() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := t.entries
	t.entries = nil
	return entries
}
