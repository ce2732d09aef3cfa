package messages

import (
	"strconv"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// eventWriter is the [blockSink] that emits a stream's blocks, one by one, with indexes from 0.
// Each is a content_block_start, any number of content_block_delta, and a content_block_stop.
type eventWriter struct {
	to               *api.Events
	index            int      // the index of the newest block; -1: there is none
	deltaStart       []byte   // the beginning of the deltas of the newest block
	deltaStartMemory [64]byte // the memory of deltaStart
}

func (e *eventWriter) beginBlock(b block) {
	e.index++
	data := strconv.AppendInt(append(e.to.Take(), `{"type":"content_block_start","index":`...), int64(e.index), 10)
	data = wirejson.Append(append(data, `,"content_block":`...), b)
	e.to.Send("content_block_start", append(data, '}'))
	e.deltaStart = strconv.AppendInt(append(e.deltaStart[:0], `{"type":"content_block_delta","index":`...), int64(e.index), 10)
	e.deltaStart = append(e.deltaStart, `,"delta":{"type":"`...)
}

// emitDelta emits a content_block_delta for the newest block. kind is the JSON between e.deltaStart
// and the text, such as `text_delta","text":`. The event has text as a JSON string.
func (e *eventWriter) emitDelta(kind, text string) {
	data := append(append(e.to.Take(), e.deltaStart...), kind...)
	e.to.Send("content_block_delta", append(wirejson.AppendString(data, text), "}}"...))
}

func (e *eventWriter) addText(piece string)     { e.emitDelta(`text_delta","text":`, piece) }
func (e *eventWriter) addThinking(piece string) { e.emitDelta(`thinking_delta","thinking":`, piece) }
func (e *eventWriter) addSignature(signature string) {
	e.emitDelta(`signature_delta","signature":`, signature)
}

// maxPiece is the most bytes of a call's input in one event, which bounds the buffer for events.
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
	data := append(append(e.to.Take(), e.deltaStart...), `citations_delta","citation":`...)
	e.to.Send("content_block_delta", append(wirejson.Append(data, c), "}}"...))
}

func (e *eventWriter) endBlock() {
	data := strconv.AppendInt(append(e.to.Take(), `{"type":"content_block_stop","index":`...), int64(e.index), 10)
	e.to.Send("content_block_stop", append(data, '}'))
}

func (e *eventWriter) finish(end ending, u usage) {
	data := wirejson.Append(append(e.to.Take(), `{"type":"message_delta","delta":`...), end)
	data = wirejson.Append(append(data, `,"usage":`...), u)
	e.to.Send("message_delta", append(data, '}'))
	e.to.Emit("message_stop", messageStop)
}

var messageStop = []byte(`{"type":"message_stop"}`)
