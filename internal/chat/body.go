package chat

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

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
