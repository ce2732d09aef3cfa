package messages

import (
	"strconv"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of a turn as the events of a streamed message
// (RawMessageStreamEvent):
//
//   - message_start, with a message without content,
//   - for each block: content_block_start, any number of content_block_delta, and
//     content_block_stop. Blocks come one after the other, with indexes from 0.
//   - message_delta, with the stop_reason and the usage, and message_stop.
//
// A failure is an error event, which ends the stream. A Stream is not safe for concurrent use.
type Stream struct {
	encoder
	events  eventWriter
	started bool // message_start has been written
}

// NewStream returns a Stream that passes the name and the JSON of each event to emit, without any
// framing. emit must not keep data after it returns. The stream ends at the first error of emit.
func NewStream(meta Meta, emit func(event string, data []byte) error) *Stream {
	s := &Stream{encoder: encoder{meta: meta}, events: eventWriter{emit: emit, index: -1}}
	s.sink, s.events.deltaStart = &s.events, s.events.deltaStartMemory[:0]
	return s
}

// Open writes message_start, if it has not been written.
func (s *Stream) Open() error {
	if !s.started {
		s.started = true
		data := append(s.events.buf.Take(), `{"type":"message_start","message":`...)
		data = s.meta.append(data, []byte("[]"), ending{}, usage{Input: s.meta.InputTokens, Tier: s.meta.tier()})
		s.events.emitBuffered("message_start", append(data, '}'))
	}
	return s.events.err
}

// Write encodes an output as any number of events. The first argument is not used, since a message
// has only one choice. Write ignores outputs after turn.OutputFinish, the last output of a turn,
// and outputs after a failure. It returns the first error of emit.
func (s *Stream) Write(_ int, out turn.Output) error {
	if !s.done && s.events.err == nil && s.Open() == nil {
		s.add(&out)
	}
	return s.events.err
}

// Fail ends the stream with an error, unless the stream has already ended. It returns the first
// error of emit.
func (s *Stream) Fail(apiErr *apierror.Error) error {
	if !s.done {
		s.done = true
		s.events.emitEvent("error", errorJSON(apiErr, ""))
	}
	return s.events.err
}

// Done reports whether the last event has been written without an error of emit.
func (s *Stream) Done() bool { return s.done && s.events.err == nil }

// Idle releases the memory that is needed only during writing.
func (s *Stream) Idle() { s.events.buf.Release() }

// eventWriter is the [blockSink] that writes the blocks of a stream as events.
type eventWriter struct {
	emit             func(event string, data []byte) error
	buf              wirejson.Buffer // memory for the event that is being written
	index            int             // the index of the newest block; -1: there is none
	deltaStart       []byte          // the beginning of the deltas of the newest block
	deltaStartMemory [64]byte        // the memory of deltaStart
	err              error           // the first error of emit
}

// emitEvent emits an event. After the first error of emit, it does nothing.
func (e *eventWriter) emitEvent(event string, data []byte) {
	if e.err == nil {
		e.err = e.emit(event, data)
	}
}

// emitBuffered emits an event whose JSON was made in the memory of buf.
func (e *eventWriter) emitBuffered(event string, data []byte) {
	e.buf.Keep(data)
	e.emitEvent(event, data)
}

func (e *eventWriter) beginBlock(b block) {
	e.index++
	data := strconv.AppendInt(append(e.buf.Take(), `{"type":"content_block_start","index":`...), int64(e.index), 10)
	data = append(data, `,"content_block":`...)
	if b.Type == typeText {
		data = append(data, `{"type":"text","text":""}`...)
	} else {
		data = wirejson.Append(data, b)
	}
	e.emitBuffered("content_block_start", append(data, '}'))
	e.deltaStart = strconv.AppendInt(append(e.deltaStart[:0], `{"type":"content_block_delta","index":`...), int64(e.index), 10)
	e.deltaStart = append(e.deltaStart, `,"delta":{"type":"`...)
}

// emitDelta emits a content_block_delta for the newest block. kind is the JSON between e.deltaStart
// and the text, such as `text_delta","text":`. The event has text as a JSON string.
func (e *eventWriter) emitDelta(kind, text string) {
	data := append(append(e.buf.Take(), e.deltaStart...), kind...)
	e.emitBuffered("content_block_delta", append(wirejson.AppendString(data, text), "}}"...))
}

func (e *eventWriter) addText(piece string)     { e.emitDelta(`text_delta","text":`, piece) }
func (e *eventWriter) addThinking(piece string) { e.emitDelta(`thinking_delta","thinking":`, piece) }
func (e *eventWriter) addSignature(signature string) {
	e.emitDelta(`signature_delta","signature":`, signature)
}

// maxPiece is the most bytes of a tool call's input in one event. It bounds the buffer in which
// events are built.
const maxPiece = 8 << 10

func (e *eventWriter) addInput(object string) {
	for object != "" {
		n := min(len(object), maxPiece)
		for n < len(object) && n > maxPiece-utf8.UTFMax && !utf8.RuneStart(object[n]) { // do not split a character; if the input is not UTF-8, n shrinks by utf8.UTFMax at most
			n--
		}
		e.emitDelta(`input_json_delta","partial_json":`, object[:n])
		object = object[n:]
	}
}

func (e *eventWriter) addCitation(c citation) {
	data := append(append(e.buf.Take(), e.deltaStart...), `citations_delta","citation":`...)
	e.emitBuffered("content_block_delta", append(wirejson.Append(data, c), "}}"...))
}

func (e *eventWriter) endBlock() {
	data := strconv.AppendInt(append(e.buf.Take(), `{"type":"content_block_stop","index":`...), int64(e.index), 10)
	e.emitBuffered("content_block_stop", append(data, '}'))
}

func (e *eventWriter) finish(end ending, u usage) {
	data := end.append(append(e.buf.Take(), `{"type":"message_delta","delta":{`...))
	data = u.append(append(data, `},"usage":`...))
	e.emitBuffered("message_delta", append(data, '}'))
	e.emitEvent("message_stop", messageStop)
}

var messageStop = []byte(`{"type":"message_stop"}`)
