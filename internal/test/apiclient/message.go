package apiclient

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/sse"
)

// message reads an answer of Anthropic's API.
func (a *Answer) message(body []byte, stream bool) error {
	if !stream {
		m, err := messagecheck.Whole(body)
		if err == nil {
			a.Ended = true
			a.blocks(m)
		}
		return err
	}
	r := new(messagecheck.Reader)
	err := a.eachEvent(body, func(e sse.Event) error {
		err := r.Event(e.Type, []byte(e.Data))
		a.Ended = r.Ended()
		return err
	})
	if err == nil && a.Ended {
		err = r.End()
	}
	if r.Failure != nil {
		a.Failed, a.Code = true, r.Failure.Error.Type
	}
	if r.Message != nil {
		a.blocks(r.Message)
	}
	return err
}

// finishes are the finish reasons of the stop reasons.
var finishes = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter", "compaction": "compaction"}

// blocks takes over the content of a message, as far as it has come. Inputs are compact.
func (a *Answer) blocks(m *messagecheck.Message) {
	c := &a.Choices[0]
	var said, thoughts []string
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			said = append(said, b.Text)
		case "thinking":
			if b.Thinking != "" {
				thoughts = append(thoughts, b.Thinking)
			}
		case "tool_use":
			c.Calls = append(c.Calls, Call{b.ID, b.Name, string(b.Input)})
		case "compaction":
			if b.Encrypted != nil {
				c.Sealed = append(c.Sealed, *b.Encrypted)
			}
		}
	}
	c.Text, c.Reasoning = strings.Join(said, "\n\n"), strings.Join(thoughts, "\n\n")
	c.Opened, c.Finish = true, finishes[m.StopReason]
	a.ID, a.Message = m.ID, m
	if u := &m.Usage; a.Ended && !a.Failed {
		a.Usage = &Usage{Input: int(*u.Input + *u.CacheRead + *u.CacheWrite), Output: int(*u.Output), Cached: int(*u.CacheRead), Reasoned: int(u.Details.Thinking)}
		for _, i := range u.Iterations {
			if i.Type == "compaction" { // the other members leave it out
				a.Usage.Input += int(i.Input + i.CacheRead + i.CacheWrite)
				a.Usage.Output, a.Usage.Cached = a.Usage.Output+int(i.Output), a.Usage.Cached+int(i.CacheRead)
			}
		}
	}
}

func (a *Answer) messageError(body []byte) error {
	e, err := messagecheck.ReadError(body)
	if err == nil {
		a.Failed, a.Code = true, e.Error.Type
	}
	return err
}
