package chat

import (
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

	head    []byte // what every chunk begins with, up to the choices
	buf     []byte // the chunk under way
	choices []streamChoice
	open    int            // choices that have not finished
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
	return &Stream{
		emit:    emit,
		meta:    meta,
		head:    appendHead(nil, meta, "chat.completion.chunk"),
		choices: make([]streamChoice, choices),
		open:    choices,
	}
}

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
	s.begin(choice, `""`)
	s.buf = append(s.buf, member...)
	s.buf = jsontext.AppendString(s.buf, text)
	s.end("")
}

func (s *Stream) callStart(choice int, out turn.Output) {
	if s.meta.LegacyFunctions {
		s.functionCall(choice, out, `{"function_call":{"name":`, out.Name, `,"arguments":""}`)
		return
	}
	s.begin(choice, "null")
	s.buf = append(s.buf, `{"tool_calls":[{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(out.Call), 10)
	s.buf = append(s.buf, `,"id":`...)
	s.buf = jsontext.AppendString(s.buf, out.ID)
	s.buf = append(s.buf, `,"type":"function","function":{"name":`...)
	s.buf = jsontext.AppendString(s.buf, out.Name)
	s.buf = append(s.buf, `,"arguments":""}}]`...)
	s.end("")
}

func (s *Stream) callArguments(choice int, out turn.Output) {
	if out.Text == "" {
		return
	}
	if s.meta.LegacyFunctions {
		s.functionCall(choice, out, `{"function_call":{"arguments":`, out.Text, `}`)
		return
	}
	s.begin(choice, "null")
	s.buf = append(s.buf, `{"tool_calls":[{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(out.Call), 10)
	s.buf = append(s.buf, `,"function":{"arguments":`...)
	s.buf = jsontext.AppendString(s.buf, out.Text)
	s.buf = append(s.buf, `}}]`...)
	s.end("")
}

// functionCall sends a part of a choice's first call: what is before its value,
// the value, and what is behind it.
func (s *Stream) functionCall(choice int, out turn.Output, before, text, behind string) {
	if out.Call != 0 {
		return
	}
	s.begin(choice, "null")
	s.buf = append(s.buf, before...)
	s.buf = jsontext.AppendString(s.buf, text)
	s.buf = append(s.buf, behind...)
	s.end("")
}

// finish ends a choice, and the stream with the last one.
func (s *Stream) finish(choice int, out turn.Output) {
	s.begin(choice, `""`)
	s.buf = append(s.buf, '{')
	s.end(s.meta.finishReason(out.Finish))
	s.choices[choice].finished = true
	s.usage = s.usage.Add(out.Usage)
	if s.open--; s.open > 0 {
		return
	}
	if s.meta.IncludeUsage {
		s.buf = append(s.buf[:0], s.head...)
		s.buf = append(s.buf, `],"usage":`...)
		s.buf = appendUsage(s.buf, s.usage)
		s.buf = append(s.buf, '}')
		s.send(s.buf)
	}
	s.done = s.err == nil
}

// begin starts a chunk of a choice up to its delta. Before the first goes one
// with the role and this content.
func (s *Stream) begin(choice int, content string) {
	if c := &s.choices[choice]; !c.opened {
		c.opened = true
		s.start(choice)
		s.buf = append(s.buf, `{"role":"assistant","content":`...)
		s.buf = append(s.buf, content...)
		s.end("")
	}
	s.start(choice)
}

func (s *Stream) start(choice int) {
	s.buf = append(s.buf[:0], s.head...)
	s.buf = append(s.buf, `{"index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(choice), 10)
	s.buf = append(s.buf, `,"delta":`...)
}

// end closes the delta and sends the chunk.
func (s *Stream) end(finish turn.FinishReason) {
	s.buf = append(s.buf, `},"finish_reason":`...)
	s.buf = jsontext.AppendStringOrNull(s.buf, string(finish))
	s.buf = append(s.buf, `}]`...)
	if s.meta.IncludeUsage {
		s.buf = append(s.buf, `,"usage":null`...)
	}
	s.buf = append(s.buf, '}')
	s.send(s.buf)
}

// send emits a chunk unless an earlier one failed.
func (s *Stream) send(data []byte) {
	if s.err == nil {
		s.err = s.emit(data)
	}
}
