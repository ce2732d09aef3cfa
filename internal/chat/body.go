package chat

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Body collects the outputs of turns into the body of a chat completion that is not streamed
// (CreateChatCompletionResponse). The outputs of each turn become one choice of the body. From the
// same outputs, [Stream] makes chunks with the same content.
type Body struct {
	meta    Meta
	choices []bodyChoice
	total   Total
}

// bodyChoice collects the outputs of one choice.
type bodyChoice struct {
	text        strings.Builder
	reasoning   strings.Builder
	calls       []turn.Output
	annotations []annotation
	finish      turn.FinishReason
	finished    bool
}

// NewBody returns an empty body.
func NewBody(meta Meta) *Body {
	return &Body{meta: meta, choices: make([]bodyChoice, max(1, meta.Choices))}
}

// Add adds an output to a choice. choice is the index of the choice, from 0. Add ignores outputs
// after turn.OutputFinish, the last output of a choice.
func (b *Body) Add(choice int, out turn.Output) {
	c := &b.choices[choice]
	if c.finished {
		return
	}
	switch out.Kind {
	case turn.OutputText:
		c.text.WriteString(out.Text)
	case turn.OutputReasoning:
		c.reasoning.WriteString(out.Text)
	case turn.OutputCall:
		if out.Call == 0 || !b.meta.LegacyFunctions {
			c.calls = append(c.calls, out)
		}
	case turn.OutputAnnotations:
		c.annotations = append(c.annotations, annotations(&out)...)
	case turn.OutputFinish:
		c.finished, c.finish = true, b.meta.finishReason(out.End.Finish)
		b.total.Add(&out)
	}
}

// JSON returns the body. The body is complete when all turns have ended without a failure.
func (b *Body) JSON() []byte {
	m := &b.meta
	body := completion{
		ID: m.ID, Object: "chat.completion", Created: m.Created, Model: m.Model, ServiceTier: m.ServiceTier,
		SystemFingerprint: m.Fingerprint, Usage: b.total.Usage(),
	}
	for i := range b.choices {
		c := &b.choices[i]
		body.Choices = append(body.Choices, choice{
			Index: i, Message: c.message(m), LogProbs: null, FinishReason: wirejson.OrNull(c.finish),
		})
	}
	return wirejson.Append(nil, body)
}

// message returns the message of the choice. If the choice has calls and no text, the content is
// null.
func (c *bodyChoice) message(meta *Meta) *message {
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
