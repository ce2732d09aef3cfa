package responses

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// eventFailed is the name of the last event of a response that failed or was cancelled.
const eventFailed = "response.failed"

func (s *Encoder) send(e event) {
	if !s.Silent() {
		e.Sequence = &s.sequence
		s.emitData(e.Type, wirejson.Append(s.Take(), e))
	}
}

// emitData emits an event, whose JSON data was built in the memory of [api.Events.Take].
func (s *Encoder) emitData(name string, data []byte) {
	s.sequence++
	s.Send(name, data)
}

func (s *Encoder) sendResponse(name string, object []byte) {
	if !s.Silent() {
		buf := append(append(append(s.Take(), `{"type":"`...), name...), `","sequence_number":`...)
		buf = append(strconv.AppendInt(buf, s.sequence, 10), `,"response":`...)
		s.emitData(name, append(append(buf, object...), '}'))
	}
}

// textEvents are the names of the events about the text of an item. In messages and reasoning, the text has
// parts: partAdded begins a part, delta has a piece of the part's text, textDone has the complete text of
// the part, and partDone ends the part. A call's arguments have only delta: sendItemEnd sends all of them.
type textEvents struct{ partAdded, delta, textDone, partDone string }

// textEventsByType has the textEvents of an item, by the type of the item. A call has textEvents
// only if it is a call of a function. The items of other calls have the arguments in another form,
// which can be made only from the complete arguments, so these calls have no deltas.
var textEventsByType = map[string]textEvents{
	typeMessage: {"response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done"},
	typeReasoning: {"response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
		"response.reasoning_summary_text.done", "response.reasoning_summary_part.done"},
	typeFunctionCall: {delta: "response.function_call_arguments.delta"},
}

// deltaPrefix has the beginning of the JSON of a delta event. All deltas of one text begin in the same way.
type deltaPrefix struct {
	itemIndex, partIndex int    // the index of the item, and of the part with the text; itemIndex is hidden before the first delta
	eventName            string // empty: the item has no delta events
	json                 []byte
}

// sendDelta sends an event with a piece of an item's text. For types of items that have no deltas, it sends
// nothing. Nearly all events are deltas, so sendDelta uses no JSON encoder, and keeps the beginning of the
// event in s.prefix.
func (s *Encoder) sendDelta(i *outputItem, text string) {
	if s.Silent() {
		return
	}
	if s.prefix.itemIndex != i.index || s.prefix.partIndex != len(i.parts) {
		s.setPrefix(i)
	}
	if s.prefix.eventName == "" {
		return
	}
	buf := append(s.Take(), s.prefix.json...)
	buf = wirejson.AppendString(buf, text)
	buf = append(buf, `,"sequence_number":`...)
	buf = strconv.AppendInt(buf, s.sequence, 10)
	s.emitData(s.prefix.eventName, append(buf, '}'))
}

func (s *Encoder) setPrefix(i *outputItem) {
	e := i.event(textEventsByType[i.Type].delta)
	if i.Type == typeMessage {
		e.Logprobs = []struct{}{}
	}
	s.prefix.itemIndex, s.prefix.partIndex, s.prefix.eventName = i.index, len(i.parts), e.Type
	s.prefix.json = wirejson.Append(s.prefix.json[:0], e)
	s.prefix.json = append(s.prefix.json[:len(s.prefix.json)-1], `,"delta":`...)
}

func (i *outputItem) event(name string) event {
	e := event{Type: name, ItemID: i.ID, OutputIndex: i.index}
	switch i.Type {
	case typeMessage:
		e.ContentIndex = new(int)
	case typeReasoning:
		e.SummaryIndex = new(len(i.parts))
	}
	return e
}

// sendItem sends an event with the whole item, unless the item is hidden from the client.
func (s *Encoder) sendItem(name string, i *outputItem) {
	if !s.Silent() && i.index != hidden {
		item := i.asJSON(s.meta.request.Encrypted)
		s.send(event{Type: name, OutputIndex: i.index, Item: &item})
	}
}

func (s *Encoder) sendPart(name string, i *outputItem, text string) {
	e, part := i.event(name), i.textPart(text)
	e.Part = &part
	s.send(e)
}

// addText adds text to the part of an item with Codex's index part. If this part is not open, addText first
// ends the open part and begins this part.
func (s *Encoder) addText(i *outputItem, part int, text string) {
	if i.text.Len() == 0 || i.openPart != part {
		s.endPart(i)
		i.openPart = part
		s.sendPart(textEventsByType[i.Type].partAdded, i, "")
	}
	i.text.WriteString(text)
	s.sendDelta(i, text)
}

func (s *Encoder) endPart(i *outputItem) {
	names := textEventsByType[i.Type]
	if names.partDone == "" || i.text.Len() == 0 { // the text has no parts, or no part is open
		return
	}
	e, text := i.event(names.textDone), i.text.String()
	if e.Text = &text; i.Type == typeMessage {
		e.Logprobs = []struct{}{}
	}
	s.send(e)
	s.sendPart(names.partDone, i, text)
	i.parts = append(i.parts, text)
	i.text.Reset()
}

func (s *Encoder) sendItemEnd(i *outputItem) {
	if i.Type == typeWebSearch && i.Status == statusCompleted {
		s.send(i.event("response.web_search_call.completed"))
	}
	switch arguments := i.text.String(); i.Type {
	case typeFunctionCall:
		e := i.event("response.function_call_arguments.done")
		e.Name, e.Arguments = i.tool.name, &arguments
		s.send(e)
	case typeCustomCall:
		input := prompt.CustomInput(arguments)
		if e := i.event("response.custom_tool_call_input.delta"); input != "" {
			e.Delta = input
			s.send(e)
		}
		e := i.event("response.custom_tool_call_input.done")
		e.Input = &input
		s.send(e)
	}
	s.sendItem("response.output_item.done", i)
}
