package chat

import (
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body folds the outputs of turns, one for each choice, into the body of a
// chat completion that is not streamed (CreateChatCompletionResponse). It carries
// what a client of [Stream] puts together from the same outputs.
type Body struct {
	meta    Meta
	choices []bodyChoice
	usage   codexrpc.Usage // of those that have
}

// bodyChoice is a choice under way.
type bodyChoice struct {
	text      []byte
	reasoning []byte
	calls     []bodyCall
	finish    turn.FinishReason
	finished  bool
}

// bodyCall is a tool call under way.
type bodyCall struct {
	id, name  string
	arguments []byte
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	return &Body{meta: meta, choices: make([]bodyChoice, max(1, meta.Choices))}
}

// Add takes the next output of a choice, from 0 to one less than there are.
// Outputs after a choice's last, or after any failure, are ignored.
func (b *Body) Add(choice int, out turn.Output) {
	c := &b.choices[choice]
	if c.finished {
		return
	}
	switch out.Kind {
	case turn.OutputText:
		c.text = append(c.text, out.Text...)
	case turn.OutputReasoning:
		c.reasoning = append(c.reasoning, out.Text...)
	case turn.OutputCallStart:
		if out.Call == 0 || !b.meta.LegacyFunctions {
			c.calls = append(c.calls, bodyCall{id: out.ID, name: out.Name})
		}
	case turn.OutputCallArguments:
		if out.Call < len(c.calls) {
			call := &c.calls[out.Call]
			call.arguments = append(call.arguments, out.Text...)
		}
	case turn.OutputFinish:
		c.finished, c.finish = true, b.meta.finishReason(out.Finish)
		b.usage = b.usage.Add(out.Usage)
	}
}

// JSON returns the body. It is complete once all turns have ended well.
func (b *Body) JSON() []byte {
	size := 512
	for i := range b.choices {
		size += b.choices[i].size()
	}
	dst := appendHead(make([]byte, 0, size+size/8), b.meta, "chat.completion")
	for i := range b.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"message":`...)
		dst = b.choices[i].appendMessage(dst, b.meta.LegacyFunctions)
		dst = append(dst, `,"logprobs":null,"finish_reason":`...)
		dst = jsontext.AppendStringOrNull(dst, string(b.choices[i].finish))
		dst = append(dst, '}')
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, b.usage)
	return append(dst, '}')
}

// size is about what the choice needs.
func (c *bodyChoice) size() int {
	size := 128 + len(c.text) + len(c.reasoning)
	for _, call := range c.calls {
		size += 128 + len(call.arguments)
	}
	return size
}

// appendMessage appends the message (ChatCompletionResponseMessage). Its content
// is null if there are only calls.
func (c *bodyChoice) appendMessage(dst []byte, legacy bool) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if len(c.text) == 0 && len(c.calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = jsontext.AppendString(dst, c.text)
	}
	dst = append(dst, `,"refusal":null,"annotations":[]`...)
	if len(c.reasoning) > 0 {
		dst = append(dst, `,"reasoning_content":`...)
		dst = jsontext.AppendString(dst, c.reasoning)
	}
	switch {
	case len(c.calls) == 0:
	case legacy:
		dst = append(dst, `,"function_call":`...)
		dst = c.calls[0].appendFunction(dst)
	default:
		dst = append(dst, `,"tool_calls":`...)
		dst = c.appendCalls(dst)
	}
	return append(dst, '}')
}

func (c *bodyChoice) appendCalls(dst []byte) []byte {
	separator := byte('[')
	for i := range c.calls {
		dst = append(dst, separator)
		separator = ','
		dst = append(dst, `{"id":`...)
		dst = jsontext.AppendString(dst, c.calls[i].id)
		dst = append(dst, `,"type":"function","function":`...)
		dst = c.calls[i].appendFunction(dst)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendFunction appends what is called, and with what.
func (c *bodyCall) appendFunction(dst []byte) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, c.name)
	dst = append(dst, `,"arguments":`...)
	dst = jsontext.AppendString(dst, c.arguments)
	return append(dst, '}')
}
