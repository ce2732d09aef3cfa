// Package messagecheck reads streams of Anthropic's Messages API as strictly as its clients: the
// order of events, indexes, one open block at a time, names that are the types, usage with numbers.
package messagecheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message is a message as its client has it in the end.
type Message struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []Block         `json:"content"`
	StopReason   string          `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	StopDetails  json.RawMessage `json:"stop_details"`
	Usage        Usage           `json:"usage"`
	Management   json.RawMessage `json:"context_management"`
}

// Back returns the message as clients send it back.
func (m *Message) Back() map[string]any {
	var blocks []any
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			blocks = append(blocks, map[string]any{"type": "text", "text": b.Text})
		case "thinking":
			blocks = append(blocks, map[string]any{"type": "thinking", "thinking": b.Thinking, "signature": b.Signature})
		case "tool_use":
			blocks = append(blocks, map[string]any{"type": "tool_use", "id": b.ID, "name": b.Name, "input": b.Input})
		case "compaction":
			blocks = append(blocks, map[string]any{"type": "compaction", "content": b.Content, "encrypted_content": b.Encrypted})
		}
	}
	return map[string]any{"role": "assistant", "content": blocks}
}

// Block is a block of a message.
type Block struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	ToolUseID string            `json:"tool_use_id"`
	Name      string            `json:"name"`
	Input     json.RawMessage   `json:"input"`
	Text      string            `json:"text"`
	Thinking  string            `json:"thinking"`
	Signature string            `json:"signature"`
	Citations []json.RawMessage `json:"citations"`
	Content   json.RawMessage   `json:"content"`
	Encrypted *string           `json:"encrypted_content"`
}

// Usage is the usage of a message.
type Usage struct {
	Input       *int64          `json:"input_tokens"`
	CacheWrite  *int64          `json:"cache_creation_input_tokens"`
	CacheRead   *int64          `json:"cache_read_input_tokens"`
	Output      *int64          `json:"output_tokens"`
	ServerTools json.RawMessage `json:"server_tool_use"`
	Details     struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServiceTier string      `json:"service_tier"`
	Iterations  []Iteration `json:"iterations"`
}

// Iteration is the usage of a summary or of an answer.
type Iteration struct {
	Type       string `json:"type"`
	Input      int64  `json:"input_tokens"`
	CacheWrite int64  `json:"cache_creation_input_tokens"`
	CacheRead  int64  `json:"cache_read_input_tokens"`
	Output     int64  `json:"output_tokens"`
}

// Whole reads the body of a message that was not streamed.
func Whole(body []byte) (*Message, error) {
	m := new(Message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

func (m *Message) check() error {
	switch {
	case m.Type != "message" || m.Role != "assistant" || m.Content == nil || !strings.HasPrefix(m.ID, "msg_"):
		return fmt.Errorf("the message %+v", m)
	case m.StopReason == "":
		return errors.New("there is no stop_reason")
	}
	calls := map[string]bool{}
	for i, b := range m.Content {
		if err := b.check(); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		if b.Type == "tool_use" && calls[b.ID] {
			return fmt.Errorf("the id %s is used twice", b.ID)
		}
		calls[b.ID] = true
	}
	return m.Usage.check()
}

func (u *Usage) check() error {
	for _, n := range []*int64{u.Input, u.CacheWrite, u.CacheRead, u.Output} {
		if n == nil || *n < 0 {
			return fmt.Errorf("the usage %+v", u)
		}
	}
	return nil
}

// members are those that a block of a type must have.
var members = map[string]func(*Block) bool{
	"text":                   func(b *Block) bool { return b.Text != "" },
	"thinking":               func(b *Block) bool { return b.Thinking != "" || b.Signature != "" },
	"tool_use":               func(b *Block) bool { return b.ID != "" && b.Name != "" && isObject(b.Input) },
	"server_tool_use":        func(b *Block) bool { return b.ID != "" && b.Name != "" && isObject(b.Input) },
	"web_search_tool_result": func(b *Block) bool { return b.ToolUseID != "" && len(b.Content) > 0 && b.Content[0] == '[' },
	"compaction": func(b *Block) bool {
		return string(b.Content) == "null" && b.Encrypted == nil || len(b.Content) > len(`""`) && b.Encrypted != nil && *b.Encrypted != ""
	},
}

func isObject(v json.RawMessage) bool {
	var object map[string]any
	return json.Unmarshal(v, &object) == nil && object != nil
}

func (b *Block) check() error {
	if has := members[b.Type]; has == nil || !has(b) {
		return fmt.Errorf("%+v", *b)
	}
	return nil
}

// Error is the error that has ended a stream.
type Error struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Error     struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Details json.RawMessage `json:"details"`
	} `json:"error"`
}

// ReadError reads the body of an error.
func ReadError(body []byte) (*Error, error) {
	e := new(Error)
	if err := json.Unmarshal(body, e); err != nil {
		return nil, err
	}
	return e, e.check()
}

func (e *Error) check() error {
	if e.Type != "error" || e.Error.Type == "" || e.Error.Message == "" {
		return fmt.Errorf("the error %+v", e)
	}
	return nil
}

// Reader reads the events of a stream, one after the other. The zero value is at its begin.
type Reader struct {
	Message *Message // once it has begun
	Failure *Error   // that has ended the stream; nil: none has
	Pings   int

	open    bool // a block is under way
	input   strings.Builder
	ended   bool // message_delta has come
	stopped bool // message_stop has come
}

// Stream reads a whole stream of server-sent events.
func Stream(body string) (*Reader, error) {
	r := new(Reader)
	for i, frame := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ":") {
			continue
		}
		name, data, ok := strings.Cut(frame, "\n")
		name, named := strings.CutPrefix(name, "event: ")
		data, has := strings.CutPrefix(data, "data: ")
		if !ok || !named || !has || strings.Contains(data, "\n") {
			return r, fmt.Errorf("frame %d: %q", i, frame)
		}
		if err := r.Event(name, []byte(data)); err != nil {
			return r, fmt.Errorf("frame %d: %q: %w", i, frame, err)
		}
	}
	return r, r.End()
}

type event struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	Index   *int            `json:"index"`
	Block   *Block          `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
	Usage   *Usage          `json:"usage"`

	Management json.RawMessage `json:"context_management"`
}

// Event reads the next event.
func (r *Reader) Event(name string, data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	switch {
	case e.Type != name:
		return fmt.Errorf("the event %s has the type %s", name, e.Type)
	case r.stopped || r.Failure != nil:
		return errors.New("an event behind the end")
	case name == "ping":
		r.Pings++
		return nil
	case name == "error":
		var err error
		r.Failure, err = ReadError(data)
		return err
	case name == "message_start":
		return r.start(e.Message)
	case r.Message == nil:
		return errors.New("an event before message_start")
	case name == "message_stop":
		if !r.ended {
			return errors.New("message_stop before message_delta")
		}
		r.stopped = true
		return nil
	case r.ended:
		return errors.New("an event behind message_delta")
	case name == "message_delta":
		return r.end(&e)
	case e.Index == nil:
		return errors.New("an event without an index")
	}
	return r.block(name, &e)
}

func (r *Reader) start(message []byte) error {
	if r.Message != nil {
		return errors.New("a second message_start")
	}
	r.Message = new(Message)
	if err := json.Unmarshal(message, r.Message); err != nil {
		return err
	}
	if r.Message.Content == nil || len(r.Message.Content) > 0 || r.Message.StopReason != "" {
		return errors.New("a message that is not empty")
	}
	return r.Message.Usage.check()
}

func (r *Reader) end(e *event) error {
	if r.open || e.Usage == nil {
		return errors.New("the end is within a block, or without a usage")
	}
	r.ended = true
	if r.Message.Usage = *e.Usage; string(e.Management) != string(r.Message.Management) {
		return errors.New("the edits of the context are not the same as at the beginning")
	}
	return json.Unmarshal(e.Delta, r.Message)
}

func (r *Reader) block(name string, e *event) error {
	m := r.Message
	if begins := name == "content_block_start"; begins == r.open || *e.Index != len(m.Content)-1 && !begins || begins && *e.Index != len(m.Content) {
		return fmt.Errorf("block %d behind %d blocks, the last one open: %t", *e.Index, len(m.Content), r.open)
	}
	switch name {
	case "content_block_start":
		if b := e.Block; b == nil || b.Text+b.Thinking+b.Signature != "" || b.Input != nil && string(b.Input) != "{}" || b.Type == "compaction" && (string(b.Content) != "null" || b.Encrypted != nil) {
			return errors.New("a block that begins with something")
		}
		e.Block.Input = nil // until it is whole
		m.Content, r.open = append(m.Content, *e.Block), true
		r.input.Reset()
		return nil
	case "content_block_stop":
		return r.endBlock()
	case "content_block_delta":
		return r.delta(e.Delta, &m.Content[*e.Index])
	}
	return errors.New("an unknown event")
}

func (r *Reader) endBlock() error {
	r.open = false
	b := &r.Message.Content[len(r.Message.Content)-1]
	if r.input.Len() == 0 {
		if strings.HasSuffix(b.Type, "tool_use") {
			b.Input = json.RawMessage("{}")
		}
		return nil
	}
	var compact bytes.Buffer // as in a message that is not streamed
	if err := json.Compact(&compact, []byte(r.input.String())); err != nil {
		return err
	}
	if b.Input = compact.Bytes(); string(b.Input) == "{}" {
		return errors.New("deltas of an empty input")
	}
	return nil
}

// deltas are the types of deltas of the types of blocks.
var deltas = map[string]string{
	"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use server_tool_use",
	"compaction_delta": "compaction",
}

func (r *Reader) delta(data []byte, b *Block) error {
	var d struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Partial   string          `json:"partial_json"`
		Citation  json.RawMessage `json:"citation"`
		Content   json.RawMessage `json:"content"`
		Encrypted *string         `json:"encrypted_content"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	if !strings.Contains(" "+deltas[d.Type]+" ", " "+b.Type+" ") {
		return fmt.Errorf("a %s in a block of the type %s", d.Type, b.Type)
	}
	has := map[string]int{"text_delta": len(d.Text), "thinking_delta": len(d.Thinking), "signature_delta": len(d.Signature), "input_json_delta": len(d.Partial), "citations_delta": len(d.Citation), "compaction_delta": len(d.Content)}
	if b.Signature != "" || has[d.Type] == 0 {
		return errors.New("a delta without its member, or behind the signature")
	}
	if d.Type == "compaction_delta" {
		if b.Encrypted != nil || string(b.Content) != "null" {
			return errors.New("a second delta of a summary")
		}
		b.Content, b.Encrypted = d.Content, d.Encrypted
	}
	b.Text, b.Thinking, b.Signature = b.Text+d.Text, b.Thinking+d.Thinking, d.Signature
	r.input.WriteString(d.Partial)
	if d.Citation != nil {
		b.Citations = append(b.Citations, d.Citation)
	}
	return nil
}

// Ended reports whether the last event has come.
func (r *Reader) Ended() bool { return r.stopped || r.Failure != nil }

// End checks the end of the stream.
func (r *Reader) End() error {
	switch {
	case r.Failure != nil:
		return nil
	case !r.stopped:
		return errors.New("the stream has no end")
	}
	return r.Message.check()
}
