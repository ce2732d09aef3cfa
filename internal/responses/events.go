package responses

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// start starts an event with its type and number.
func (s *Stream) start(event string) {
	s.buf = append(s.buf[:0], `{"type":"`...)
	s.buf = append(s.buf, event...)
	s.buf = append(s.buf, `","sequence_number":`...)
	s.buf = strconv.AppendInt(s.buf, s.sequence, 10)
	s.sequence++
}

// startOf starts an event about an item.
func (s *Stream) startOf(event string, i *outputItem) {
	s.start(event)
	s.buf = appendPlace(s.buf, i)
}

// appendPlace appends which item an event is about.
func appendPlace(dst []byte, i *outputItem) []byte {
	dst = append(dst, `,"item_id":`...)
	dst = jsontext.AppendString(dst, i.id)
	dst = append(dst, `,"output_index":`...)
	return strconv.AppendInt(dst, int64(i.index), 10)
}

// send closes an event and emits it, unless an earlier one failed.
func (s *Stream) send(event string) {
	if s.err != nil {
		return
	}
	s.buf = append(s.buf, '}')
	s.err = s.emit(event, s.buf)
}

// delta sends a piece of text. Nearly all events are these, so that what they
// have in common is kept: place appends it for a new head.
func (s *Stream) delta(event string, i *outputItem, part int, text string, place func([]byte) []byte) {
	if s.headOf != (headKey{i.index, part}) {
		s.headOf = headKey{i.index, part}
		s.head = append(s.head[:0], `{"type":"`...)
		s.head = append(s.head, event...)
		s.head = append(s.head, '"')
		s.head = place(appendPlace(s.head, i))
		s.head = append(s.head, `,"delta":`...)
	}
	buf := append(s.buf[:0], s.head...)
	buf = jsontext.AppendString(buf, text)
	buf = append(buf, `,"sequence_number":`...)
	s.buf = strconv.AppendInt(buf, s.sequence, 10)
	s.sequence++
	s.send(event)
}

// headKey says of which item, and of which part of it, a head of deltas is.
type headKey struct{ item, part int }

// item sends an event with the whole item.
func (s *Stream) item(event string, i *outputItem) {
	s.start(event)
	s.buf = append(s.buf, `,"output_index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(i.index), 10)
	s.buf = append(s.buf, `,"item":`...)
	s.buf = i.append(s.buf, s.meta.encrypted)
	s.send(event)
}

// added implements itemEvents.
func (s *Stream) added(i *outputItem) {
	s.item("response.output_item.added", i)
	if i.kind == itemMessageType {
		s.contentPart("response.content_part.added", i)
	}
}

// contentPart sends an event with the one part of a message.
func (s *Stream) contentPart(event string, i *outputItem) {
	s.startOf(event, i)
	s.buf = append(s.buf, `,"content_index":0,"part":`...)
	s.buf = appendTextPart(s.buf, i.text)
	s.send(event)
}

// text implements itemEvents.
func (s *Stream) text(i *outputItem, text string) {
	s.delta("response.output_text.delta", i, 0, text, appendTextPlace)
}

func appendTextPlace(dst []byte) []byte { return append(dst, `,"content_index":0,"logprobs":[]`...) }

// summaryPart starts an event about the last part of a summary.
func (s *Stream) summaryPart(event string, i *outputItem) {
	s.startOf(event, i)
	s.buf = append(s.buf, `,"summary_index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(len(i.parts)-1), 10)
}

// partAdded implements itemEvents.
func (s *Stream) partAdded(i *outputItem) {
	s.summaryPart("response.reasoning_summary_part.added", i)
	s.buf = append(s.buf, `,"part":{"type":"summary_text","text":""}`...)
	s.send("response.reasoning_summary_part.added")
}

// summary implements itemEvents.
func (s *Stream) summary(i *outputItem, text string) {
	part := len(i.parts) - 1
	s.delta("response.reasoning_summary_text.delta", i, part, text, func(dst []byte) []byte {
		dst = append(dst, `,"summary_index":`...)
		return strconv.AppendInt(dst, int64(part), 10)
	})
}

// partDone implements itemEvents.
func (s *Stream) partDone(i *outputItem) {
	text := i.parts[len(i.parts)-1]
	s.summaryPart("response.reasoning_summary_text.done", i)
	s.buf = append(s.buf, `,"text":`...)
	s.buf = jsontext.AppendString(s.buf, text)
	s.send("response.reasoning_summary_text.done")
	s.summaryPart("response.reasoning_summary_part.done", i)
	s.buf = append(s.buf, `,"part":`...)
	s.buf = appendSummaryPart(s.buf, text)
	s.send("response.reasoning_summary_part.done")
}

// argument implements itemEvents. Only the arguments of a function can be sent
// before they are whole: the input of a custom tool is within its arguments.
func (s *Stream) argument(i *outputItem, text string) {
	if i.kind == itemCall {
		s.delta("response.function_call_arguments.delta", i, 0, text, appendNothing)
	}
}

func appendNothing(dst []byte) []byte { return dst }

// ended implements itemEvents.
func (s *Stream) ended(i *outputItem) {
	switch i.kind {
	case itemMessageType:
		s.startOf("response.output_text.done", i)
		s.buf = append(s.buf, `,"content_index":0,"text":`...)
		s.buf = jsontext.AppendString(s.buf, i.text)
		s.buf = append(s.buf, `,"logprobs":[]`...)
		s.send("response.output_text.done")
		s.contentPart("response.content_part.done", i)
	case itemCall:
		s.startOf("response.function_call_arguments.done", i)
		s.buf = append(s.buf, `,"name":`...)
		s.buf = jsontext.AppendString(s.buf, i.form.name)
		s.buf = append(s.buf, `,"arguments":`...)
		s.buf = jsontext.AppendString(s.buf, i.arguments)
		s.send("response.function_call_arguments.done")
	case itemCustom:
		s.customEnded(i)
	}
	s.item("response.output_item.done", i)
}

// customEnded sends the input of a custom tool.
func (s *Stream) customEnded(i *outputItem) {
	input := customInput(i.arguments)
	if input != "" {
		s.delta("response.custom_tool_call_input.delta", i, 0, input, appendNothing)
	}
	s.startOf("response.custom_tool_call_input.done", i)
	s.buf = append(s.buf, `,"input":`...)
	s.buf = jsontext.AppendString(s.buf, input)
	s.send("response.custom_tool_call_input.done")
}
