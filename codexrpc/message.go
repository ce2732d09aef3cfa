package codexrpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// message is one parsed line from the app-server. Its strings share the line's memory, so they are
// valid until the next line is read. Strings that are kept longer are copied.
type message struct {
	id     string // the raw JSON of the id: a number or a string
	method string
	params string // params, result and err are JSON
	result string
	err    string
}

// maxID bounds the id of a message, in bytes, since the reply repeats the id. It also bounds the
// id of a parked tool call (one that waits for the client's result).
const maxID = 256

var errGarbage = errors.New("not a message of the protocol")

// parseMessage parses a line, which must not change while the message is in use. A notification
// that this client uses for a turn is also read into e; otherwise e.Kind is empty.
func parseMessage(line []byte, e *Event) (message, error) {
	*e = Event{size: len(line)}
	var m message
	s := newScanner(line)
	if s.Peek() != '{' {
		return message{}, errGarbage
	}
	for more := s.Object(); more; more = s.More('}') {
		switch s.Name() {
		case "id":
			id := s.Value()
			if kind := valueOf(id).Kind(); len(id) <= maxID && (kind == wirejson.KindNumber || kind == wirejson.KindString) {
				m.id = id
			}
		case "method":
			m.method = s.Text()
		case "params":
			m.params = s.Value()
		case "result":
			m.result = s.Value()
		case "error":
			m.err = s.Value()
		default:
			s.Value()
		}
	}
	if !s.End() || m.method == "" && m.id == "" {
		return message{}, errGarbage
	}
	if e.Kind = kinds[m.method]; e.Kind != "" {
		e.setParams(valueOf(m.params))
	}
	return m, nil
}

// valueOf returns a JSON text that a scanner has read as a value, without copying it.
func valueOf(text string) wirejson.Value { return wirejson.View(text) }

// maxNesting bounds the levels of nested JSON in a line. Codex accepts values of some 128 levels,
// and its own messages add only a few levels to such a value.
const maxNesting = 512

func newScanner(line []byte) wirejson.Scanner { return wirejson.NewScanner(line, maxNesting) }

// textAt returns the string at a path of members in an object, or "". It does not read beyond that string.
func textAt[T string | []byte](object T, path ...string) string {
	s := newScanner(wirejson.View(object))
	if s.Find(path...) {
		return s.Text()
	}
	return ""
}

func callError(method, body string) *CallError {
	var v struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	_ = json.Unmarshal([]byte(body), &v) // body is valid JSON; a member of an unexpected type stays empty
	e := &CallError{Method: method, Code: v.Code, Message: truncate(v.Message, maxErrorText)}
	if len(v.Data) <= maxErrorText {
		e.Data = v.Data
	}
	return e
}

// outgoing is a message from this client. The app-server's protocol omits the member "jsonrpc".
type outgoing struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params any             `json:"params,omitempty"`
	Result any             `json:"result,omitempty"`
	Error  *outgoingError  `json:"error,omitempty"`
}

type outgoingError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// encode encodes a value as a line. It does not escape <, > and &, since that would make histories longer.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// minEchoSize is the minimum size, in bytes, of the lines that isEcho checks.
const minEchoSize = 8 << 10

// isEcho reports whether a line of at least minEchoSize bytes only repeats input from this client.
// The app-server sends injected history and the user's message back. Such a line is as long as the
// input and has no use, so dispatch drops it without parsing it.
func (c *Conn) isEcho(line []byte) bool {
	if len(line) < minEchoSize {
		return false
	}
	method := textAt(line, "method")
	switch {
	case isInput(method, line):
		if method == methodItemStarted {
			c.thread(lastID(line, "threadId")).notifyInputRead() // does nothing if the thread is nil
		}
		return true
	case method == methodRawItemCompleted:
		// This raw item is either injected history or a new item of the model. Only a new item has
		// the id of the running turn.
		t := c.thread(textAt(line, "params", "threadId"))
		turnID := textAt(line, "params", "turnId")
		return t == nil || turnID == "" || turnID != t.currentTurnID()
	}
	return false
}

// lastID returns the value of the last member with this name in a line or a part of a line, or "". It searches
// from the end, since the ids follow the item, which may be large. `"name":"` cannot match inside a string,
// since JSON escapes quotes there.
func lastID(line []byte, name string) string {
	member := []byte(`"` + name + `":"`)
	at := bytes.LastIndex(line, member)
	if at < 0 {
		return ""
	}
	id, _, _ := bytes.Cut(line[at+len(member):], []byte(`"`))
	return string(id)
}

// isInput reports whether a line with this method is about a message that the model did not write. It reads
// only the beginning of the line, so the rest may be missing.
func isInput(method string, line []byte) bool {
	switch kind := textAt(line, "params", "item", "type"); method {
	case methodItemStarted, methodItemCompleted:
		return kind == itemUserMessage
	case methodRawItemCompleted:
		return kind == itemMessage && textAt(line, "params", "item", "role") != roleAssistant
	}
	return false
}

// ErrMessageTooLarge is matched for a message above [MaxMessage], which the transport has skipped.
var ErrMessageTooLarge = errors.New("message too large")

// keptBytes is how many bytes tooLargeError keeps of each end of a skipped message. One of the two
// ends has the ids of the thread and the turn.
const keptBytes = 1 << 10

// tooLargeError is the error for a message that was skipped. The transport writes the message to it.
type tooLargeError struct {
	limit      int // in bytes
	head, tail []byte
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("a message of more than %d bytes: %v", e.limit, ErrMessageTooLarge)
}

func (e *tooLargeError) Unwrap() error { return ErrMessageTooLarge }

func (e *tooLargeError) Write(part []byte) (int, error) {
	e.head = append(e.head, part[:min(len(part), keptBytes-len(e.head))]...)
	e.tail = append(e.tail, part[max(0, len(part)-keptBytes):]...)
	e.tail = e.tail[max(0, len(e.tail)-keptBytes):]
	return len(part), nil
}

// findID returns the id in the member of this name, or "" if it is in neither end of the message.
// The ids stand after an item of Codex, but before a raw item or the text of a delta.
func (e *tooLargeError) findID(member string) string {
	beforeItem, _, _ := bytes.Cut(e.head, []byte(`"item":`))
	return cmp.Or(lastID(e.tail, member), lastID(beforeItem, member))
}

// handleTooLarge fails the running turn that a skipped message belongs to, since the client would miss a
// part of the answer. If the message only repeats what the client has sent, the turn goes on.
func (c *Conn) handleTooLarge(err error) {
	c.opts.Logger().Warn("skipped a message of the codex app-server", "error", err)
	skipped, ok := errors.AsType[*tooLargeError](err)
	if !ok || isInput(textAt(skipped.head, "method"), skipped.head) || textAt(skipped.head, "params", "item", "type") == itemCallOutput {
		return
	}
	t, turnID := c.thread(skipped.findID("threadId")), skipped.findID("turnId")
	if t != nil && turnID != "" && turnID == t.currentTurnID() {
		t.queue.fail(err)
	}
}
