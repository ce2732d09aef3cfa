package chat

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Stream encodes the outputs of turns as chat.completion.chunk objects
// (CreateChatCompletionStreamResponse). Each choice is one turn. The chunks of several choices may
// be mixed. Each choice has these chunks:
//
//   - a chunk with the role and an empty content (null if the turn begins with a call),
//   - a chunk for each piece of text (delta.content), of reasoning (delta.reasoning_content, which
//     is common but not a part of OpenAI's API) and of a call, and for each picture (delta.images),
//   - a chunk with the finish_reason and an empty delta.
//
// The first chunk of a call (delta.tool_calls) has the call's index, id, type and name. Its other
// chunks have the index and new arguments; the whole input of a custom tool comes in one chunk. For
// a call of the older form (delta.function_call), the first chunk has the name, and the others have
// new arguments.
//
// If the client asks for the usage, the last chunk has the usage of all choices and no choice; all
// earlier chunks have "usage": null. If a choice fails, an error object ends the stream.
//
// A Stream must not be used by several goroutines at once.
type Stream struct {
	Emitter
	meta Meta
	tail string // the end of every chunk without a finish_reason

	buf     wirejson.Buffer // memory for the chunk that is being written
	choices []streamChoice

	// only and first are memory for a stream with one choice, which then needs no allocations.
	only  [1]streamChoice
	first [256]byte // for the head of the choice
}

// streamChoice is the state of a choice.
type streamChoice struct {
	head   []byte   // the beginning of every chunk, up to the delta
	opened bool     // the role has been sent
	form   ToolForm // the form of the current call; 0: a function
	shown  int      // the number of pictures sent
}

// noReason is the end of a choice in a chunk. Only the last chunk of a choice has a finish_reason.
const noReason = `,"finish_reason":null`

// NewStream returns a stream that passes the JSON of each chunk to emit, without the framing of
// server-sent events. data is valid only during the call of emit. After the first error of emit,
// the stream emits nothing more.
func NewStream(meta Meta, emit func(data []byte) error) *Stream {
	choices := max(1, meta.Choices)
	s := &Stream{Emitter: NewEmitter(choices, emit), meta: meta, tail: noReason + "}]}"}
	if s.choices = s.only[:]; choices > 1 {
		s.choices = make([]streamChoice, choices)
	}
	if meta.IncludeUsage {
		s.tail = noReason + `}],"usage":null}`
	}
	for i := range s.choices {
		memory := s.first[:0]
		if i > 0 {
			memory = make([]byte, 0, len(s.first))
		}
		head := append(s.appendHead(memory), `,"choices":[{"index":`...)
		s.choices[i].head = append(strconv.AppendInt(head, int64(i), 10), `,"delta":`...)
	}
	return s
}

// appendHead appends the first members of every chunk.
func (s *Stream) appendHead(to []byte) []byte {
	to = wirejson.AppendString(append(to, `{"id":`...), s.meta.ID)
	to = strconv.AppendInt(append(to, `,"object":"chat.completion.chunk","created":`...), s.meta.Created, 10)
	to = wirejson.AppendString(append(to, `,"model":`...), s.meta.Model)
	if s.meta.ServiceTier != "" {
		to = wirejson.AppendString(append(to, `,"service_tier":`...), s.meta.ServiceTier)
	}
	if s.meta.Fingerprint != "" {
		to = wirejson.AppendString(append(to, `,"system_fingerprint":`...), s.meta.Fingerprint)
	}
	return to
}

// Write encodes an output of a choice as any number of chunks. The first choice is 0. Write ignores
// outputs after turn.OutputFinish, the last output of a choice, and all outputs after a failure. It
// returns the first error of emit.
func (s *Stream) Write(choice int, out turn.Output) error {
	if s.Over(choice) {
		return s.err
	}
	switch out.Kind {
	case turn.OutputText, turn.OutputReasoning:
		s.piece(choice, empty, &out)
	case turn.OutputCallStart:
		s.call(choice, &out)
	case turn.OutputCallArguments:
		if s.choices[choice].form == 0 && (out.Call == 0 || !s.meta.LegacyFunctions) {
			s.piece(choice, nothing, &out)
		}
	case turn.OutputCallEnd:
		s.endCall(choice, &out)
	case turn.OutputAnnotations:
		if all := annotations(&out); all != nil {
			s.open(choice, empty)
			s.chunk(choice, encoded(message{Annotations: all}), "")
		}
	case turn.OutputPicture:
		s.picture(choice, &out)
	case turn.OutputFinish:
		s.finish(choice, &out)
	}
	return s.err
}

// picture sends a chunk with a whole picture. If the picture could not be made, it sends nothing,
// since the model's text says why.
func (s *Stream) picture(choice int, out *turn.Output) {
	if out.Err != nil {
		return
	}
	c := &s.choices[choice]
	s.open(choice, empty)
	s.chunk(choice, encoded(message{Images: []picture{newPicture(c.shown, out)}}), "")
	c.shown++
}

// call sends the first chunk of a call.
func (s *Stream) call(index int, out *turn.Output) {
	made, form := out.Call, s.meta.Forms[out.Name]
	s.choices[index].form = form
	switch {
	case !s.meta.LegacyFunctions:
		s.open(index, nothing)
		begun := newCall(out.ID, out.Name, "", form)
		begun.Index = &made
		s.chunk(index, encoded(message{ToolCalls: []call{begun}}), "")
	case out.Call == 0:
		s.open(index, nothing)
		s.chunk(index, encoded(message{FunctionCall: &function{Name: out.Name}}), "")
	}
}

// endCall sends the whole input of a called custom tool, since the input can be read only from the
// complete arguments. The arguments of a function have already been sent.
func (s *Stream) endCall(index int, out *turn.Output) {
	c := &s.choices[index]
	if c.form == 0 {
		return
	}
	made, text := out.Call, prompt.CustomInput(out.Text)
	rest := call{Index: &made}
	if c.form == customForm {
		rest.Custom = &custom{Input: text}
	} else {
		rest.Function = &function{Arguments: text}
	}
	c.form = 0
	if text != "" {
		s.chunk(index, encoded(message{ToolCalls: []call{rest}}), "")
	}
}

// piece sends a chunk with a piece of text, of reasoning or of arguments. Nearly all chunks are
// such pieces. If the choice has no chunk yet, piece sends its opening chunk before. first is the
// delta of that opening chunk.
func (s *Stream) piece(index int, first string, out *turn.Output) {
	if out.Text == "" {
		return
	}
	c := &s.choices[index]
	if !c.opened {
		s.open(index, first)
	}
	chunk, after := append(s.buf.Take(), c.head...), "}"
	switch {
	case out.Kind == turn.OutputText:
		chunk = append(chunk, `{"content":`...)
	case out.Kind == turn.OutputReasoning:
		chunk = append(chunk, `{"reasoning_content":`...)
	case s.meta.LegacyFunctions:
		chunk, after = append(chunk, `{"function_call":{"arguments":`...), "}}"
	default:
		chunk = strconv.AppendInt(append(chunk, `{"tool_calls":[{"index":`...), int64(out.Call), 10)
		chunk, after = append(chunk, `,"function":{"arguments":`...), "}}]}"
	}
	chunk = append(append(wirejson.AppendString(chunk, out.Text), after...), s.tail...)
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// Idle releases the memory that is needed only during writing.
func (s *Stream) Idle() { s.buf.Release() }

// finish ends a choice. The last choice ends the stream.
func (s *Stream) finish(index int, out *turn.Output) {
	s.open(index, empty)
	s.chunk(index, "{}", s.meta.finishReason(out.Finish))
	var usage func(*Usage) []byte
	if s.meta.IncludeUsage {
		usage = func(u *Usage) []byte {
			return append(wirejson.Append(append(s.appendHead(nil), `,"choices":[],"usage":`...), u), '}')
		}
	}
	s.Finish(index, out, usage)
}

// empty and nothing are the possible deltas of the first chunk of a choice: empty if the choice
// begins with text, nothing if it begins with a call.
const (
	empty   = `{"role":"assistant","content":""}`
	nothing = `{"role":"assistant","content":null}`
)

// open sends the first chunk of a choice with this delta, if it has not been sent yet.
func (s *Stream) open(choice int, delta string) {
	if c := &s.choices[choice]; !c.opened {
		c.opened = true
		s.chunk(choice, delta, "")
	}
}

// chunk sends a chunk of one choice, with a delta that is already encoded.
func (s *Stream) chunk(index int, delta string, finish turn.FinishReason) {
	chunk := append(s.buf.Take(), s.choices[index].head...)
	chunk = append(chunk, delta...)
	if finish == "" {
		chunk = append(chunk, s.tail...)
	} else {
		chunk = wirejson.AppendString(append(chunk, `,"finish_reason":`...), string(finish))
		chunk = append(chunk, strings.TrimPrefix(s.tail, noReason)...)
	}
	s.buf.Keep(chunk)
	s.Send(chunk)
}

// encoded returns a delta as JSON. piece writes the most frequent deltas without calling encoded.
func encoded(delta message) string { return string(wirejson.Append(nil, delta)) }
