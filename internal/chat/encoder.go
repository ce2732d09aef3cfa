package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Encoder encodes the outputs of turns as chat.completion.chunk objects
// (CreateChatCompletionStreamResponse), or as one chat.completion object of the same content. Each turn
// becomes a choice. The chunks of different choices may be mixed. A choice has these chunks:
//
//   - a chunk with the role and an empty content (null if the turn begins with a call),
//   - a chunk for each piece of text (delta.content) and of reasoning (delta.reasoning_content), and
//     for each list of citations (delta.annotations),
//   - two chunks for each call,
//   - a chunk with the finish_reason and an empty delta.
//
// reasoning_content is common, but not a part of OpenAI's API. The first chunk of a call
// (delta.tool_calls) has the index, id, type and name of the call. The second chunk has the index and the
// arguments or, for a custom tool, the input; it is left out if these are empty. In the older form of
// tools, functions, a call is in delta.function_call: first the name, then the arguments.
//
// If the client asks for the usage, a last chunk without a choice has the usage of all choices, and all
// other chunks have "usage": null. If a choice fails, an error object ends the stream.
type Encoder struct {
	api.Events
	meta     Meta
	chunkEnd string // the end of every chunk without a finish_reason

	choices    []choiceState
	unfinished int // how many choices have not finished
	usage      codexrpc.Usage
	estimated  bool // this server has estimated a part of the usage

	// oneChoice is the memory of choices if there is only one choice. oneChoiceStart is the memory
	// of the chunkStart in choices[0]. Both fields save allocations.
	oneChoice      [1]choiceState
	oneChoiceStart [256]byte
}

// choiceState is the state of a choice.
type choiceState struct {
	chunkStart []byte // the beginning of every chunk of the choice, up to the delta
	roleSent   bool   // the first chunk, which has the role, has been sent
	finished   bool
	content    *content // the content of the choice for an answer in one body; nil: there are chunks
}

// noFinishReason is the finish_reason in all chunks of a choice but the last.
const noFinishReason = `,"finish_reason":null`

// NewEncoder returns an encoder. The caller must call Begin.
func NewEncoder(meta Meta) *Encoder { return &Encoder{meta: meta} }

// Begin implements [api.Encoder].
func (e *Encoder) Begin(emit api.Emit) {
	e.Events.Begin(emit)
	if e.meta.Place != nil {
		model, version := e.meta.Place()
		hash := sha256.Sum256([]byte(model + "\x00" + version))
		e.meta.Fingerprint = "fp_" + hex.EncodeToString(hash[:5]) // looks like OpenAI's
	}
	e.unfinished = max(1, e.meta.Choices)
	if e.choices = e.oneChoice[:]; e.unfinished > 1 {
		e.choices = make([]choiceState, e.unfinished)
	}
	e.chunkEnd = noFinishReason + "}]}"
	if e.meta.IncludeUsage {
		e.chunkEnd = noFinishReason + `}],"usage":null}`
	}
	for i := range e.choices {
		if emit == nil {
			e.choices[i].content = new(content)
			continue
		}
		memory := e.oneChoiceStart[:0]
		if i > 0 {
			memory = make([]byte, 0, len(e.oneChoiceStart))
		}
		head := append(e.appendChunkStart(memory), `,"choices":[{"index":`...)
		e.choices[i].chunkStart = append(strconv.AppendInt(head, int64(i), 10), `,"delta":`...)
	}
}

// appendChunkStart appends the beginning that all chunks share: the members before the member choices.
func (e *Encoder) appendChunkStart(dst []byte) []byte {
	dst = wirejson.AppendString(append(dst, `{"id":`...), e.meta.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"chat.completion.chunk","created":`...), e.meta.Created, 10)
	dst = wirejson.AppendString(append(dst, `,"model":`...), e.meta.Model)
	if e.meta.ServiceTier != "" {
		dst = wirejson.AppendString(append(dst, `,"service_tier":`...), e.meta.ServiceTier)
	}
	if e.meta.Fingerprint != "" {
		dst = wirejson.AppendString(append(dst, `,"system_fingerprint":`...), e.meta.Fingerprint)
	}
	return dst
}

// Write implements [api.Encoder]. An output becomes any number of chunks, or none.
func (e *Encoder) Write(choice int, out turn.Output) error {
	c := &e.choices[choice]
	switch {
	case e.Over() || e.Err() != nil || c.finished:
	case out.Kind == turn.OutputFinish:
		e.finishChoice(choice, &out)
	case c.content != nil:
		c.content.add(&out, &e.meta)
	case out.Kind == turn.OutputText || out.Kind == turn.OutputReasoning:
		e.sendPiece(choice, openingForText, &out)
	case out.Kind == turn.OutputCall:
		e.sendCall(choice, &out)
	case out.Kind == turn.OutputAnnotations:
		if all := annotations(&out); all != nil {
			e.openChoice(choice, openingForText)
			e.sendChunk(choice, encodeDelta(message{Annotations: all}), "")
		}
	}
	return e.Err()
}

// sendCall sends the chunks of a call. In the older form of tools, functions, it sends only the first call
// of a choice, since clients read no others.
func (e *Encoder) sendCall(index int, out *turn.Output) {
	callIndex, form := out.Call, e.meta.Forms[out.Name]
	var first message
	switch {
	case !e.meta.LegacyFunctions:
		firstDelta := newCall(out.ID, out.Name, "", form)
		firstDelta.Index = &callIndex
		first.ToolCalls = []call{firstDelta}
	case out.Call == 0:
		first.FunctionCall = &function{Name: out.Name}
	default:
		return
	}
	e.openChoice(index, openingForCall)
	e.sendChunk(index, encodeDelta(first), "")
	if form == 0 {
		e.sendPiece(index, openingForCall, out)
		return
	}
	text, inputDelta := prompt.CustomInput(out.Text), call{Index: &callIndex}
	if form == customForm {
		inputDelta.Custom = &custom{Input: text}
	} else {
		inputDelta.Function = &function{Arguments: text}
	}
	if text != "" {
		e.sendChunk(index, encodeDelta(message{ToolCalls: []call{inputDelta}}), "")
	}
}

// sendPiece sends a piece of text, of reasoning or of a call's arguments. Nearly all chunks are such
// pieces, so it uses no JSON encoder. If the choice has no chunk yet, it first sends the delta opening.
func (e *Encoder) sendPiece(index int, opening string, out *turn.Output) {
	if out.Text == "" {
		return
	}
	e.openChoice(index, opening)
	chunk, closing := append(e.Take(), e.choices[index].chunkStart...), "}"
	switch {
	case out.Kind == turn.OutputText:
		chunk = append(chunk, `{"content":`...)
	case out.Kind == turn.OutputReasoning:
		chunk = append(chunk, `{"reasoning_content":`...)
	case e.meta.LegacyFunctions:
		chunk, closing = append(chunk, `{"function_call":{"arguments":`...), "}}"
	default:
		chunk = strconv.AppendInt(append(chunk, `{"tool_calls":[{"index":`...), int64(out.Call), 10)
		chunk, closing = append(chunk, `,"function":{"arguments":`...), "}}]}"
	}
	e.Send("", append(append(wirejson.AppendString(chunk, out.Text), closing...), e.chunkEnd...))
}

// finishChoice ends a choice. When all choices have ended, it also ends the answer.
func (e *Encoder) finishChoice(index int, out *turn.Output) {
	c, reason := &e.choices[index], out.End.Finish
	if e.meta.LegacyFunctions && reason == turn.FinishToolCalls {
		reason = "function_call"
	}
	if c.finished = true; c.content != nil {
		c.content.finish = reason
	} else {
		e.openChoice(index, openingForText)
		e.sendChunk(index, "{}", reason)
	}
	e.usage, e.estimated = e.usage.Add(out.End.Usage), e.estimated || out.End.Estimated
	if e.unfinished--; e.unfinished > 0 {
		return
	}
	if e.meta.IncludeUsage && e.Streams() {
		e.Emit("", append(wirejson.Append(append(e.appendChunkStart(nil), `,"choices":[],"usage":`...), e.totalUsage()), '}'))
	}
	e.End()
}

func (e *Encoder) totalUsage() *usage {
	u := e.usage
	w := &usage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens, Estimated: e.estimated}
	w.PromptDetails.CachedTokens = u.CachedInputTokens
	w.PromptDetails.CacheWriteTokens = u.CacheWriteInputTokens
	w.CompletionDetails.ReasoningTokens = u.ReasoningOutputTokens
	return w
}

// The first delta of a choice: openingForCall if a call follows, otherwise openingForText.
const (
	openingForText = `{"role":"assistant","content":""}`
	openingForCall = `{"role":"assistant","content":null}`
)

func (e *Encoder) openChoice(choice int, delta string) {
	if c := &e.choices[choice]; !c.roleSent {
		c.roleSent = true
		e.sendChunk(choice, delta, "")
	}
}

// sendChunk sends a chunk of one choice. delta is JSON. If finish is empty, the finish_reason is null.
func (e *Encoder) sendChunk(index int, delta string, finish turn.FinishReason) {
	chunk := append(e.Take(), e.choices[index].chunkStart...)
	chunk = append(chunk, delta...)
	if finish == "" {
		chunk = append(chunk, e.chunkEnd...)
	} else {
		chunk = wirejson.AppendString(append(chunk, `,"finish_reason":`...), string(finish))
		chunk = append(chunk, strings.TrimPrefix(e.chunkEnd, noFinishReason)...)
	}
	e.Send("", chunk)
}

// encodeDelta returns a delta as JSON. sendPiece writes the most frequent deltas itself.
func encodeDelta(delta message) string { return string(wirejson.Append(nil, delta)) }

var endMark = []byte("[DONE]")

// Form implements [api.Answer].
func (*Encoder) Form() api.Form { return api.Form{Counts: true, EndMark: endMark} }

// NameFields implements [api.Answer].
func (e *Encoder) NameFields(apiErr *apierror.Error) *apierror.Error {
	return apiErr.WithConversation(e.meta.Field)
}

// Fail implements [api.Encoder].
func (e *Encoder) Fail(apiErr *apierror.Error) error { return e.Last("", apiErr.Body()) }

// content collects the outputs of one choice for an answer that is not streamed.
type content struct {
	text        strings.Builder
	reasoning   strings.Builder
	calls       []turn.Output
	annotations []annotation
	finish      turn.FinishReason
}

func (c *content) add(out *turn.Output, meta *Meta) {
	switch out.Kind {
	case turn.OutputText:
		c.text.WriteString(out.Text)
	case turn.OutputReasoning:
		c.reasoning.WriteString(out.Text)
	case turn.OutputCall:
		if out.Call == 0 || !meta.LegacyFunctions {
			c.calls = append(c.calls, *out)
		}
	case turn.OutputAnnotations:
		c.annotations = append(c.annotations, annotations(out)...)
	}
}

// JSON implements [api.Encoder].
func (e *Encoder) JSON() []byte {
	m := &e.meta
	body := completion{
		ID: m.ID, Object: "chat.completion", Created: m.Created, Model: m.Model, ServiceTier: m.ServiceTier,
		SystemFingerprint: m.Fingerprint, Usage: e.totalUsage(),
	}
	for i := range e.choices {
		c := e.choices[i].content
		body.Choices = append(body.Choices, choice{
			Index: i, Message: c.message(m), LogProbs: null, FinishReason: wirejson.OrNull(c.finish),
		})
	}
	return wirejson.Append(nil, body)
}

// message returns the message of the choice. With calls and no text, the content is null.
func (c *content) message(meta *Meta) *message {
	text := c.text.String()
	m := &message{Role: "assistant", Content: &text, Refusal: null, Annotations: append([]annotation{}, c.annotations...), Reasoning: c.reasoning.String()}
	if text == "" && len(c.calls) > 0 {
		m.Content = null
	}
	for _, toolCall := range c.calls {
		arguments, form := toolCall.Text, meta.Forms[toolCall.Name]
		if form != 0 {
			arguments = prompt.CustomInput(arguments)
		}
		if meta.LegacyFunctions {
			m.FunctionCall = &function{toolCall.Name, arguments}
		} else {
			m.ToolCalls = append(m.ToolCalls, newCall(toolCall.ID, toolCall.Name, arguments, form))
		}
	}
	return m
}
