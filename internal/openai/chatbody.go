package openai

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ChatBody folds the outputs of a turn into the body of a chat completion that
// is not streamed (CreateChatCompletionResponse). It carries what a client of
// [ChatStream] puts together from the same outputs.
type ChatBody struct {
	meta      Meta
	text      []byte
	reasoning []byte
	calls     []bodyCall
	finish    turn.FinishReason
	usage     codexrpc.Usage
	done      bool
	err       error
}

// bodyCall is a tool call under way.
type bodyCall struct {
	id, name  string
	arguments []byte
}

// NewChatBody returns an empty body.
func NewChatBody(meta Meta) *ChatBody { return &ChatBody{meta: meta} }

// Add takes the next output of the turn. Outputs after the last are ignored.
func (b *ChatBody) Add(_ int, out turn.Output) {
	if b.done {
		return
	}
	switch out.Kind {
	case turn.OutputText:
		b.text = append(b.text, out.Text...)
	case turn.OutputReasoning:
		b.reasoning = append(b.reasoning, out.Text...)
	case turn.OutputCallStart:
		b.calls = append(b.calls, bodyCall{id: out.ID, name: out.Name})
	case turn.OutputCallArguments:
		if out.Call < len(b.calls) {
			call := &b.calls[out.Call]
			call.arguments = append(call.arguments, out.Text...)
		}
	case turn.OutputFinish:
		b.done, b.finish, b.usage = true, out.Finish, out.Usage
	case turn.OutputFailure:
		b.done, b.err = true, out.Err
	}
}

// Done reports whether the turn has said its last, well or not.
func (b *ChatBody) Done() bool { return b.done }

// Failure returns why the turn failed, or nil. A failed turn has no body: it is
// answered with [FromFailure] of it.
func (b *ChatBody) Failure() error { return b.err }

// Calls is the number of tool calls so far.
func (b *ChatBody) Calls() int { return len(b.calls) }

// JSON returns the body. It is complete once the turn has ended well.
func (b *ChatBody) JSON() []byte {
	size := 512 + len(b.text) + len(b.reasoning)
	for _, c := range b.calls {
		size += 128 + len(c.arguments)
	}
	dst := appendHead(make([]byte, 0, size+size/8), b.meta, "chat.completion")
	dst = append(dst, `{"index":0,"message":`...)
	dst = b.appendMessage(dst)
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = appendStringOrNull(dst, string(b.finish))
	dst = append(dst, `}],"usage":`...)
	dst = appendUsage(dst, b.usage)
	return append(dst, '}')
}

// appendMessage appends the message (ChatCompletionResponseMessage). Its content
// is null if there are only calls.
func (b *ChatBody) appendMessage(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if len(b.text) == 0 && len(b.calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, b.text)
	}
	dst = append(dst, `,"refusal":null,"annotations":[]`...)
	if len(b.reasoning) > 0 {
		dst = append(dst, `,"reasoning_content":`...)
		dst = appendString(dst, b.reasoning)
	}
	if len(b.calls) > 0 {
		dst = append(dst, `,"tool_calls":`...)
		dst = b.appendCalls(dst)
	}
	return append(dst, '}')
}

func (b *ChatBody) appendCalls(dst []byte) []byte {
	separator := byte('[')
	for _, c := range b.calls {
		dst = append(dst, separator)
		separator = ','
		dst = append(dst, `{"id":`...)
		dst = appendString(dst, c.id)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = appendString(dst, c.name)
		dst = append(dst, `,"arguments":`...)
		dst = appendString(dst, c.arguments)
		dst = append(dst, `}}`...)
	}
	return append(dst, ']')
}
