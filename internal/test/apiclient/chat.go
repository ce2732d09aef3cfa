package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-codex/caddy-codex/sse"
)

type chatChunk struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Error   map[string]any `json:"error"`
	Choices []struct {
		Index        int      `json:"index"`
		Delta        chatText `json:"delta"`
		Message      chatText `json:"message"`
		FinishReason string   `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage `json:"usage"`
}

type chatText struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content"`
	Calls     []ToolCall `json:"tool_calls"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	PromptOf   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *chatUsage) usage() *Usage {
	if u == nil {
		return nil
	}
	return &Usage{u.Prompt, u.Completion, u.PromptOf.Cached, u.CompletionOf.Reasoning}
}

func (a *Answer) chatEvent(e sse.Event) error {
	switch {
	case e.Type != "":
		return fmt.Errorf("an event has a name: %q", e.Type)
	case e.Data == "[DONE]":
		if a.Ended = true; !a.Failed && !a.finished() {
			return errors.New("the choices have not finished")
		}
		return nil
	case a.Failed:
		return errors.New("after an error")
	}
	var c chatChunk
	if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
		return err
	}
	if c.Error != nil {
		return a.fail(c.Error)
	}
	return a.chunk(&c)
}

func (a *Answer) finished() bool {
	return !slices.ContainsFunc(a.Choices, func(c Choice) bool { return c.Finish == "" })
}

func (a *Answer) chunk(c *chatChunk) error {
	if a.ID == "" {
		a.ID = c.ID
	}
	switch {
	case c.ID != a.ID || c.Object != "chat.completion.chunk":
		return errors.New("a chunk of something else")
	case a.Usage != nil:
		return errors.New("a chunk after the usage")
	case len(c.Choices) == 0:
		if a.Usage = c.Usage.usage(); a.Usage == nil || !a.finished() {
			return errors.New("a chunk of nothing")
		}
		return nil
	case len(c.Choices) > 1 || c.Choices[0].Index >= len(a.Choices):
		return errors.New("an unknown choice")
	}
	at := &a.Choices[c.Choices[0].Index]
	delta := &c.Choices[0].Delta
	switch {
	case at.Finish != "":
		return errors.New("a chunk of a choice that has finished")
	case at.Opened != (delta.Role == ""):
		return errors.New("not one role at the begin")
	}
	at.Opened = true
	at.Finish = c.Choices[0].FinishReason
	at.Text += delta.Content
	at.Reasoning += delta.Reasoning
	for _, call := range delta.Calls {
		switch {
		case call.Index == len(at.Calls) && call.ID != "" && call.Function.Name != "":
			at.Calls = append(at.Calls, Call{ID: call.ID, Name: call.Function.Name})
		case call.Index != len(at.Calls)-1 || call.ID != "":
			return errors.New("a fragment of a call that is not the last")
		}
		at.Calls[call.Index].Arguments += call.Function.Arguments
	}
	return nil
}

func (a *Answer) chat(body []byte) error {
	var c chatChunk
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	if len(c.Choices) != len(a.Choices) || c.Object != "chat.completion" {
		return fmt.Errorf("%d choices of a %s", len(c.Choices), c.Object)
	}
	a.Usage, a.ID, a.Ended = c.Usage.usage(), c.ID, true
	for i, from := range c.Choices {
		if from.Index != i {
			return fmt.Errorf("choice %d is at %d", from.Index, i)
		}
		to := &a.Choices[i]
		to.Text, to.Reasoning, to.Finish = from.Message.Content, from.Message.Reasoning, from.FinishReason
		for _, call := range from.Message.Calls {
			to.Calls = append(to.Calls, Call{call.ID, call.Function.Name, call.Function.Arguments})
		}
	}
	return nil
}
