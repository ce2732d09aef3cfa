package chat

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of turns as chat.completion.chunk objects
// (CreateChatCompletionStreamResponse). The outputs of each turn become one choice. The chunks of
// several choices may be mixed. Each choice has these chunks:
//
//   - a chunk with the role and an empty content (null if the turn begins with a call),
//   - a chunk for each piece of text (delta.content) and of reasoning (delta.reasoning_content), and
//     for each list of citations (delta.annotations),
//   - two chunks for each call,
//   - a chunk with the finish_reason and an empty delta.
//
// The member reasoning_content is common, but not a part of OpenAI's API. The first chunk of a call
// (delta.tool_calls) has the call's index, id, type and name. The second chunk has the index and the
// arguments or, of a custom tool, the input; there is none if they are empty. If the request has
// functions, the older form of tools, a call is in delta.function_call: its first chunk has the name,
// and its second chunk has the arguments.
//
// If the client asks for the usage, the last chunk has no choice, but the usage of all choices
// together; all earlier chunks have "usage": null. If a choice fails, an error object ends the
// stream.
//
// A Stream is not safe for concurrent use.
type Stream struct {
	Emitter
	meta     Meta
	chunkEnd string // the end of every chunk without a finish_reason

	buf     wirejson.Buffer // memory for the chunk that is being written
	choices []streamChoice

	// oneChoice is the memory of choices if there is only one choice. oneChoiceStart is the memory
	// of the chunkStart in choices[0]. Both fields save allocations.
	oneChoice      [1]streamChoice
	oneChoiceStart [256]byte
}

// streamChoice is the state of a choice.
type streamChoice struct {
	chunkStart []byte // the beginning of every chunk of the choice, up to the delta
	roleSent   bool   // the first chunk, which has the role, has been sent
}

// noFinishReason is the finish_reason in all chunks of a choice but the last.
const noFinishReason = `,"finish_reason":null`

// NewStream returns a stream that passes the JSON of each chunk to emit, without the framing of
// server-sent events. data is valid only during the call of emit. After the first error of emit,
// the stream emits nothing more.
func NewStream(meta Meta, emit func(data []byte) error) *Stream {
	choices := max(1, meta.Choices)
	s := &Stream{Emitter: NewEmitter(choices, emit), meta: meta, chunkEnd: noFinishReason + "}]}"}
	if s.choices = s.oneChoice[:]; choices > 1 {
		s.choices = make([]streamChoice, choices)
	}
	if meta.IncludeUsage {
		s.chunkEnd = noFinishReason + `}],"usage":null}`
	}
	for i := range s.choices {
		memory := s.oneChoiceStart[:0]
		if i > 0 {
			memory = make([]byte, 0, len(s.oneChoiceStart))
		}
		head := append(s.appendChunkStart(memory), `,"choices":[{"index":`...)
		s.choices[i].chunkStart = append(strconv.AppendInt(head, int64(i), 10), `,"delta":`...)
	}
	return s
}

// appendChunkStart appends the beginning that all chunks share: the members before choices.
func (s *Stream) appendChunkStart(dst []byte) []byte {
	dst = wirejson.AppendString(append(dst, `{"id":`...), s.meta.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"chat.completion.chunk","created":`...), s.meta.Created, 10)
	dst = wirejson.AppendString(append(dst, `,"model":`...), s.meta.Model)
	if s.meta.ServiceTier != "" {
		dst = wirejson.AppendString(append(dst, `,"service_tier":`...), s.meta.ServiceTier)
	}
	if s.meta.Fingerprint != "" {
		dst = wirejson.AppendString(append(dst, `,"system_fingerprint":`...), s.meta.Fingerprint)
	}
	return dst
}

// Write encodes an output as any number of chunks, or as none. choice is the index of the output's
// choice, from 0. turn.OutputFinish is the last output of a choice. Write ignores later outputs of
// this choice. After a failure, it ignores all outputs. Write returns the first error of emit.
func (s *Stream) Write(choice int, out turn.Output) error {
	if s.IsClosed(choice) {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText, turn.OutputReasoning:
		s.sendPiece(choice, openingForText, &out)
	case turn.OutputCall:
		s.sendCall(choice, &out)
	case turn.OutputAnnotations:
		if all := annotations(&out); all != nil {
			s.openChoice(choice, openingForText)
			s.sendChunk(choice, encodeDelta(message{Annotations: all}), "")
		}
	case turn.OutputFinish:
		s.finishChoice(choice, &out)
	}
	return s.err
}

// sendCall sends the chunks of a call. If the request has functions, the older form of tools, the
// client can read only one call, so sendCall sends nothing for the calls after the first.
func (s *Stream) sendCall(index int, out *turn.Output) {
	callIndex, form := out.Call, s.meta.Forms[out.Name]
	var first message
	switch {
	case !s.meta.LegacyFunctions:
		firstDelta := newCall(out.ID, out.Name, "", form)
		firstDelta.Index = &callIndex
		first.ToolCalls = []call{firstDelta}
	case out.Call == 0:
		first.FunctionCall = &function{Name: out.Name}
	default:
		return
	}
	s.openChoice(index, openingForCall)
	s.sendChunk(index, encodeDelta(first), "")
	if form == 0 {
		s.sendPiece(index, openingForCall, out)
		return
	}
	text, inputDelta := prompt.CustomInput(out.Text), call{Index: &callIndex}
	if form == customForm {
		inputDelta.Custom = &custom{Input: text}
	} else {
		inputDelta.Function = &function{Arguments: text}
	}
	if text != "" {
		s.sendChunk(index, encodeDelta(message{ToolCalls: []call{inputDelta}}), "")
	}
}

// sendPiece sends a chunk with a piece of text, a piece of reasoning or the arguments of a call. Nearly all chunks are
// such pieces, so sendPiece does not use the JSON encoder. If the choice has no chunk yet,
// sendPiece first sends a chunk with opening as its delta.
func (s *Stream) sendPiece(index int, opening string, out *turn.Output) {
	if out.Text == "" {
		return
	}
	c := &s.choices[index]
	if !c.roleSent {
		s.openChoice(index, opening)
	}
	chunk, closing := append(s.buf.Take(), c.chunkStart...), "}"
	switch {
	case out.Kind == turn.OutputText:
		chunk = append(chunk, `{"content":`...)
	case out.Kind == turn.OutputReasoning:
		chunk = append(chunk, `{"reasoning_content":`...)
	case s.meta.LegacyFunctions:
		chunk, closing = append(chunk, `{"function_call":{"arguments":`...), "}}"
	default:
		chunk = strconv.AppendInt(append(chunk, `{"tool_calls":[{"index":`...), int64(out.Call), 10)
		chunk, closing = append(chunk, `,"function":{"arguments":`...), "}}]}"
	}
	chunk = append(append(wirejson.AppendString(chunk, out.Text), closing...), s.chunkEnd...)
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// Idle releases the memory that is needed only during writing.
func (s *Stream) Idle() { s.buf.Release() }

// finishChoice ends a choice. When all choices have ended, it also ends the stream.
func (s *Stream) finishChoice(index int, out *turn.Output) {
	s.openChoice(index, openingForText)
	s.sendChunk(index, "{}", s.meta.finishReason(out.End.Finish))
	var usage func(*Usage) []byte
	if s.meta.IncludeUsage {
		usage = func(u *Usage) []byte {
			return append(wirejson.Append(append(s.appendChunkStart(nil), `,"choices":[],"usage":`...), u), '}')
		}
	}
	s.Finish(index, out, usage)
}

// The deltas of the first chunk of a choice: openingForCall if the choice begins with a call, and
// otherwise openingForText.
const (
	openingForText = `{"role":"assistant","content":""}`
	openingForCall = `{"role":"assistant","content":null}`
)

// openChoice sends the first chunk of a choice with this delta, if it has not been sent yet.
func (s *Stream) openChoice(choice int, delta string) {
	if c := &s.choices[choice]; !c.roleSent {
		c.roleSent = true
		s.sendChunk(choice, delta, "")
	}
}

// sendChunk sends a chunk of one choice. delta is JSON. If finish is empty, the finish_reason is
// null.
func (s *Stream) sendChunk(index int, delta string, finish turn.FinishReason) {
	chunk := append(s.buf.Take(), s.choices[index].chunkStart...)
	chunk = append(chunk, delta...)
	if finish == "" {
		chunk = append(chunk, s.chunkEnd...)
	} else {
		chunk = wirejson.AppendString(append(chunk, `,"finish_reason":`...), string(finish))
		chunk = append(chunk, strings.TrimPrefix(s.chunkEnd, noFinishReason)...)
	}
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// encodeDelta returns a delta as JSON. sendPiece writes the most frequent deltas itself.
func encodeDelta(delta message) string { return string(wirejson.Append(nil, delta)) }
