package chat

import (
	"encoding/json"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Stream encodes the outputs of turns, one for each choice, as
// chat.completion.chunk objects (CreateChatCompletionStreamResponse). For each
// choice these are, between those of the others:
//
//   - a chunk that names the role, with an empty content, or with null if the
//     turn begins with a call,
//   - a chunk for each piece of text (delta.content), of reasoning
//     (delta.reasoning_content, which is no part of OpenAI's API but common) and
//     of a call (delta.tool_calls: first index, id, type and name, then
//     index and new arguments; or delta.function_call: first the name, then new
//     arguments),
//   - a chunk with the finish_reason and an empty delta.
//
// If asked for, a chunk without choices ends the stream that holds the usage of
// all choices; all chunks before it then have "usage": null. The failure of one
// choice is that of the request: an error object ends the stream.
//
// It must not be used by several goroutines at once.
type Stream struct {
	emit func(data []byte) error
	meta Meta

	head    []byte // what a chunk begins with, up to the index of its choice
	tail    string // what one with a piece of a text ends with, behind the delta
	buf     []byte // the chunk under way
	choices []streamChoice
	left    int            // choices that have not finished
	usage   codexrpc.Usage // of those that have
	done    bool
	err     error // of emit
}

// streamChoice is how far a choice is.
type streamChoice struct {
	opened   bool // the role has been sent
	finished bool
}

// NewStream returns an encoder that hands the JSON of each chunk to emit,
// without any framing. The slice is valid during the call only. The stream ends
// at the first error of emit.
func NewStream(meta Meta, emit func(data []byte) error) *Stream {
	choices := max(1, meta.Choices)
	head := jsontext.Append(nil, meta.head(objectChunk))
	s := &Stream{
		emit:    emit,
		meta:    meta,
		head:    append(head[:len(head)-1], `,"choices":[{"index":`...),
		tail:    `,"finish_reason":null}]}`,
		choices: make([]streamChoice, choices),
		left:    choices,
	}
	if meta.IncludeUsage {
		s.tail = `,"finish_reason":null}],"usage":null}`
	}
	return s
}

// objectChunk is the object of a chunk.
const objectChunk = "chat.completion.chunk"

// Write encodes one output of a choice, from 0 to one less than there are, as
// none, one or more chunks. The error is that of emit. Outputs after a choice's last, or after any failure, are ignored.
func (s *Stream) Write(choice int, out turn.Output) error {
	if s.done || s.err != nil || s.choices[choice].finished {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText:
		s.text(choice, `{"content":`, out.Text)
	case turn.OutputReasoning:
		s.text(choice, `{"reasoning_content":`, out.Text)
	case turn.OutputCallStart:
		s.callStart(choice, out)
	case turn.OutputCallArguments:
		s.callArguments(choice, out)
	case turn.OutputFinish:
		s.finish(choice, out)
	}
	return s.err
}

// Fail ends the stream with an error object. The error is that of emit.
func (s *Stream) Fail(e *apierror.Error) error {
	if !s.done {
		s.done = true
		s.send(e.Body())
	}
	return s.err
}

// Done reports whether the last chunk has been written, so that "[DONE]" is due:
// all choices have finished, or one has failed.
func (s *Stream) Done() bool { return s.done }

// text sends a delta with one member: its beginning and its value.
func (s *Stream) text(choice int, member, text string) {
	if text == "" {
		return
	}
	s.begin(choice, empty)
	s.buf = append(s.buf, member...)
	s.buf = jsontext.AppendString(s.buf, text)
	s.end("}")
}

func (s *Stream) callStart(choice int, out turn.Output) {
	f := function{Name: out.Name}
	switch {
	case !s.meta.LegacyFunctions:
		s.open(choice, null)
		s.chunk(choice, message{ToolCalls: []call{{&out.Call, out.ID, "function", f}}}, "")
	case out.Call == 0:
		s.open(choice, null)
		s.chunk(choice, message{FunctionCall: &f}, "")
	}
}

func (s *Stream) callArguments(choice int, out turn.Output) {
	if out.Text == "" || s.meta.LegacyFunctions && out.Call != 0 {
		return
	}
	s.begin(choice, null)
	behind := "}}"
	if s.meta.LegacyFunctions {
		s.buf = append(s.buf, `{"function_call":{"arguments":`...)
	} else {
		s.buf = append(s.buf, `{"tool_calls":[{"index":`...)
		s.buf = strconv.AppendInt(s.buf, int64(out.Call), 10)
		s.buf = append(s.buf, `,"function":{"arguments":`...)
		behind = "}}]}"
	}
	s.buf = jsontext.AppendString(s.buf, out.Text)
	s.end(behind)
}

// finish ends a choice, and the stream with the last one.
func (s *Stream) finish(index int, out turn.Output) {
	s.open(index, empty)
	s.chunk(index, message{}, s.meta.finishReason(out.Finish))
	s.choices[index].finished = true
	s.usage = s.usage.Add(out.Usage)
	if s.left--; s.left > 0 {
		return
	}
	if s.meta.IncludeUsage {
		s.object(completion{Choices: []choice{}, Usage: newUsage(s.usage)})
	}
	s.done = s.err == nil
}

// empty is the content of a first chunk that text follows.
var empty = json.RawMessage(`""`)

// open sends the first chunk of a choice, with the role and this content, unless it
// was sent.
func (s *Stream) open(choice int, content json.RawMessage) {
	if c := &s.choices[choice]; !c.opened {
		c.opened = true
		s.chunk(choice, message{Role: "assistant", Content: content}, "")
	}
}

// chunk sends a chunk of one choice.
func (s *Stream) chunk(index int, delta message, finish turn.FinishReason) {
	c := completion{Choices: []choice{{Index: index, Delta: &delta, FinishReason: jsontext.OrNull(finish)}}}
	if s.meta.IncludeUsage {
		c.Usage = null
	}
	s.object(c)
}

// object sends a chunk, of which c is all but the head.
func (s *Stream) object(c completion) {
	c.head = s.meta.head(objectChunk)
	s.buf = jsontext.Append(s.buf[:0], c)
	s.send(s.buf)
}

// begin starts a chunk with a piece of a text, up to its delta. Nearly all chunks are
// these, so that they are appended by hand.
func (s *Stream) begin(choice int, content json.RawMessage) {
	s.open(choice, content)
	s.buf = append(s.buf[:0], s.head...)
	s.buf = strconv.AppendInt(s.buf, int64(choice), 10)
	s.buf = append(s.buf, `,"delta":`...)
}

// end ends the delta, of which behind is the rest, and sends the chunk.
func (s *Stream) end(behind string) {
	s.buf = append(s.buf, behind...)
	s.buf = append(s.buf, s.tail...)
	s.send(s.buf)
}

// send emits an object unless an earlier one failed.
func (s *Stream) send(data []byte) {
	if s.err == nil {
		s.err = s.emit(data)
	}
}
