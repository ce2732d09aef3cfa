package messages

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// beginBlock ends the open block, if there is one, and begins b. The methods add… extend b, endBlock ends
// b. In a stream, b is a content_block_start, any number of content_block_delta, and a content_block_stop.
func (e *Encoder) beginBlock(b block) {
	e.endBlock()
	e.openType = b.Type
	if !e.Streams() {
		e.blocks = append(e.blocks, b)
		return
	}
	e.index++
	data := strconv.AppendInt(append(e.Take(), `{"type":"content_block_start","index":`...), int64(e.index), 10)
	data = wirejson.Append(append(data, `,"content_block":`...), b)
	e.Send("content_block_start", append(data, '}'))
	e.deltaStart = strconv.AppendInt(append(e.deltaStart[:0], `{"type":"content_block_delta","index":`...), int64(e.index), 10)
	e.deltaStart = append(e.deltaStart, `,"delta":{"type":"`...)
}

// The kinds of deltas with a text: the JSON between e.deltaStart and the text.
const (
	deltaText      = `text_delta","text":`
	deltaThinking  = `thinking_delta","thinking":`
	deltaSignature = `signature_delta","signature":`
	deltaInput     = `input_json_delta","partial_json":`
)

// addDelta adds a text to the newest block. kind is one of the constants above.
func (e *Encoder) addDelta(kind, text string) {
	switch {
	case e.Streams():
		data := append(append(e.Take(), e.deltaStart...), kind...)
		e.Send("content_block_delta", append(wirejson.AppendString(data, text), "}}"...))
	case kind == deltaSignature:
		e.last().Signature = new(text)
	default:
		e.lastText.WriteString(text)
	}
}

func (e *Encoder) last() *block { return &e.blocks[len(e.blocks)-1] }

// maxPiece is the most bytes of a call's input in one event. It bounds the buffer for events.
const maxPiece = 8 << 10

// addInput adds the whole input of a call or a search to the newest block, whose input is {} so far.
func (e *Encoder) addInput(object string) {
	if !e.Streams() {
		e.last().Input = []byte(object)
		return
	}
	for object != "" {
		n := min(len(object), maxPiece)
		for n < len(object) && n > maxPiece-utf8.UTFMax && !utf8.RuneStart(object[n]) { // do not split a character; if the input is not UTF-8, n shrinks by utf8.UTFMax at most
			n--
		}
		e.addDelta(deltaInput, object[:n])
		object = object[n:]
	}
}

func (e *Encoder) addCitation(c citation) {
	if !e.Streams() {
		e.last().Citations = append(e.last().Citations, c)
		return
	}
	data := append(append(e.Take(), e.deltaStart...), `citations_delta","citation":`...)
	e.Send("content_block_delta", append(wirejson.Append(data, c), "}}"...))
}

// addSummary adds a summary of the conversation, and what the client keeps of it, sealed. Both are empty if the
// model wrote no summary.
func (e *Encoder) addSummary(out *turn.Output) {
	none, text, sealed := wirejson.OrNull(""), wirejson.OrNull(strings.Clone(out.Text)), wirejson.OrNull(strings.Clone(out.Name))
	e.beginBlock(block{Type: typeSummary, Content: none, Encrypted: none})
	if e.Streams() {
		data := wirejson.Append(append(append(e.Take(), e.deltaStart...), `compaction_delta","content":`...), text)
		data = wirejson.Append(append(data, `,"encrypted_content":`...), sealed)
		e.Send("content_block_delta", append(data, "}}"...))
	} else {
		e.last().Content, e.last().Encrypted = text, sealed
	}
	e.endBlock()
	e.summary, e.paused = out.End, out.End == nil
	if out.Text != "" {
		e.meta.InputTokens = 0 // what the model reads after a summary is not known
	}
}

func (e *Encoder) endBlock() {
	switch {
	case e.openType == "":
	case e.Streams():
		data := strconv.AppendInt(append(e.Take(), `{"type":"content_block_stop","index":`...), int64(e.index), 10)
		e.Send("content_block_stop", append(data, '}'))
	case e.lastText.Len() > 0:
		text := e.lastText.String()
		e.lastText.Reset()
		if e.openType == typeThinking {
			e.last().Thinking = &text
		} else {
			e.last().Text = &text
		}
	}
	e.openType = ""
}
