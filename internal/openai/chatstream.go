package openai

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Meta is what all chunks of a stream, and a body, have in common.
type Meta struct {
	ID      string // of the completion, for example "chatcmpl-…"
	Model   string // as the client named it
	Created int64  // Unix time in seconds
	// IncludeUsage adds the usage chunk to a stream. A body always has it.
	IncludeUsage bool
}

// ChatStream encodes the outputs of a turn as chat.completion.chunk objects
// (CreateChatCompletionStreamResponse):
//
//   - a chunk that names the role, with an empty content, or with null if the
//     turn begins with a call,
//   - a chunk for each piece of text (delta.content), of reasoning
//     (delta.reasoning_content, which is no part of OpenAI's API but common) and
//     of a call (delta.tool_calls: first index, id, type and name, then
//     index and new arguments),
//   - a chunk with the finish_reason and an empty delta,
//   - if asked for, a chunk without choices that holds the usage; all chunks
//     before it then have "usage": null.
//
// It must not be used by several goroutines at once.
type ChatStream struct {
	emit         func(data []byte) error
	includeUsage bool

	head   []byte // what every chunk begins with, up to the choices
	buf    []byte // the chunk under way
	opened bool   // the role has been sent
	done   bool
	err    error // of emit
}

// NewChatStream returns an encoder that hands the JSON of each chunk to emit,
// without any framing. The slice is valid during the call only. The stream ends
// at the first error of emit.
func NewChatStream(meta Meta, emit func(data []byte) error) *ChatStream {
	return &ChatStream{
		emit:         emit,
		includeUsage: meta.IncludeUsage,
		head:         appendHead(nil, meta, "chat.completion.chunk"),
	}
}

// appendHead appends the members that a chunk and a body begin with.
func appendHead(dst []byte, meta Meta, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, meta.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, meta.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, meta.Model)
	return append(dst, `,"choices":[`...)
}

// Write encodes one output as none, one or more chunks. A failure becomes an
// error object. The error is that of emit. Outputs after the last are ignored.
func (s *ChatStream) Write(_ int, out turn.Output) error {
	if s.done || s.err != nil {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText:
		s.text(`{"content":`, out.Text)
	case turn.OutputReasoning:
		s.text(`{"reasoning_content":`, out.Text)
	case turn.OutputCallStart:
		s.callStart(out)
	case turn.OutputCallArguments:
		s.callArguments(out)
	case turn.OutputFinish:
		s.finish(out)
	case turn.OutputFailure:
		s.done = true
		s.send(FromFailure(out.Err).Body())
	}
	return s.err
}

// Done reports whether the last chunk has been written, so that "[DONE]" is due.
func (s *ChatStream) Done() bool { return s.done }

// text sends a delta with one member: its beginning and its value.
func (s *ChatStream) text(member, text string) {
	if text == "" {
		return
	}
	s.open(`""`)
	s.begin()
	s.buf = append(s.buf, member...)
	s.buf = appendString(s.buf, text)
	s.end("")
}

func (s *ChatStream) callStart(out turn.Output) {
	s.open("null")
	s.begin()
	s.buf = append(s.buf, `{"tool_calls":[{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(out.Call), 10)
	s.buf = append(s.buf, `,"id":`...)
	s.buf = appendString(s.buf, out.ID)
	s.buf = append(s.buf, `,"type":"function","function":{"name":`...)
	s.buf = appendString(s.buf, out.Name)
	s.buf = append(s.buf, `,"arguments":""}}]`...)
	s.end("")
}

func (s *ChatStream) callArguments(out turn.Output) {
	if out.Text == "" {
		return
	}
	s.open("null")
	s.begin()
	s.buf = append(s.buf, `{"tool_calls":[{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(out.Call), 10)
	s.buf = append(s.buf, `,"function":{"arguments":`...)
	s.buf = appendString(s.buf, out.Text)
	s.buf = append(s.buf, `}}]`...)
	s.end("")
}

func (s *ChatStream) finish(out turn.Output) {
	s.open(`""`)
	s.begin()
	s.buf = append(s.buf, '{')
	s.end(out.Finish)
	if s.includeUsage {
		s.buf = append(s.buf[:0], s.head...)
		s.buf = append(s.buf, `],"usage":`...)
		s.buf = appendUsage(s.buf, out.Usage)
		s.buf = append(s.buf, '}')
		s.send(s.buf)
	}
	s.done = s.err == nil
}

// open sends the chunk with the role before anything else.
func (s *ChatStream) open(content string) {
	if s.opened {
		return
	}
	s.opened = true
	s.begin()
	s.buf = append(s.buf, `{"role":"assistant","content":`...)
	s.buf = append(s.buf, content...)
	s.end("")
}

// begin starts a chunk up to its delta.
func (s *ChatStream) begin() {
	s.buf = append(s.buf[:0], s.head...)
	s.buf = append(s.buf, `{"index":0,"delta":`...)
}

// end closes the delta and sends the chunk.
func (s *ChatStream) end(finish turn.FinishReason) {
	s.buf = append(s.buf, `},"finish_reason":`...)
	s.buf = appendStringOrNull(s.buf, string(finish))
	s.buf = append(s.buf, `}]`...)
	if s.includeUsage {
		s.buf = append(s.buf, `,"usage":null`...)
	}
	s.buf = append(s.buf, '}')
	s.send(s.buf)
}

// send emits a chunk unless an earlier one failed.
func (s *ChatStream) send(data []byte) {
	if s.err == nil {
		s.err = s.emit(data)
	}
}

// appendUsage appends a CompletionUsage.
func appendUsage(dst []byte, u codexrpc.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.InputTokens, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.OutputTokens, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CachedInputTokens, 10)
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.ReasoningOutputTokens, 10)
	return append(dst, `}}`...)
}
