package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// heard is an answer as a client understands it, of either API, streamed or not.
type heard struct {
	choices []choice
	code    string // code of the error that ended it
	failed  bool   // there was an error
	ended   bool   // it had its proper end
	usage   *usage
	id      string
	object  json.RawMessage // the final response
	texts   []string        // texts of messages, and an empty one for each reasoning item
}

// choice is the content of one choice.
type choice struct {
	text, reasoning string
	calls           []toolCall
	finish          string // empty if it has not ended
	opened          bool
}

// events reads the events of a stream. An event that is cut off is dropped.
func events(body []byte) (all []apiclient.Event, err error) {
	for r := apiclient.NewReader(bytes.NewReader(body)); ; {
		e, err := r.Next()
		switch err {
		case nil:
			all = append(all, e)
		case io.EOF, io.ErrUnexpectedEOF:
			return all, nil
		default:
			return all, err
		}
	}
}

// errorBody is an error in OpenAI's form.
type errorBody struct {
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func (e *errorBody) code() string {
	if e.Error.Code == nil {
		return ""
	}
	return *e.Error.Code
}

// chatChunk is a chunk or a completion.
type chatChunk struct {
	errorBody
	ID      string `json:"id"`
	Object  string `json:"object"`
	Choices []struct {
		Index        int      `json:"index"`
		Delta        chatText `json:"delta"`
		Message      chatText `json:"message"`
		FinishReason string   `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage `json:"usage"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptOf   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *chatUsage) usage() *usage {
	if u == nil {
		return nil
	}
	return &usage{input: u.Prompt, output: u.Completion, cached: u.PromptOf.Cached, reasoned: u.CompletionOf.Reasoning}
}

type chatText struct {
	Role      string               `json:"role"`
	Content   string               `json:"content"`
	Reasoning string               `json:"reasoning_content"`
	Calls     []apiclient.ToolCall `json:"tool_calls"`
}

// chatStream reads a stream of chunks.
func chatStream(body []byte, choices int) (*heard, error) {
	h := &heard{choices: make([]choice, choices)}
	all, err := events(body)
	if err != nil {
		return h, err
	}
	for _, e := range all {
		switch {
		case h.ended:
			return h, fmt.Errorf("after [DONE]: %.200s", e.Data)
		case e.Type != "":
			return h, fmt.Errorf("an event has a name: %q", e.Type)
		case e.Data == "[DONE]":
			if !h.failed && !h.finished() {
				return h, errors.New("[DONE] before the choices have finished")
			}
			h.ended = true
			continue
		case h.failed:
			return h, fmt.Errorf("after an error: %.200s", e.Data)
		}
		if err := h.chunk(e.Data); err != nil {
			return h, fmt.Errorf("%w: %.300s", err, e.Data)
		}
	}
	return h, nil
}

func (h *heard) finished() bool {
	for _, c := range h.choices {
		if c.finish == "" {
			return false
		}
	}
	return true
}

// chunk adds one chunk.
func (h *heard) chunk(data string) error {
	var c chatChunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return err
	}
	if c.Error != nil {
		h.failed, h.code = true, c.code()
		return nil
	}
	if h.id == "" {
		h.id = c.ID
	}
	switch {
	case c.ID != h.id || c.Object != "chat.completion.chunk":
		return errors.New("a chunk of something else")
	case h.usage != nil:
		return errors.New("a chunk after the usage")
	case len(c.Choices) == 0:
		if h.usage = c.Usage.usage(); h.usage == nil || !h.finished() {
			return errors.New("a chunk of nothing")
		}
		return nil
	case len(c.Choices) > 1 || c.Choices[0].Index >= len(h.choices):
		return errors.New("an unknown choice")
	}
	at := &h.choices[c.Choices[0].Index]
	delta := &c.Choices[0].Delta
	switch {
	case at.finish != "":
		return errors.New("a chunk of a choice that has finished")
	case at.opened != (delta.Role == ""):
		return errors.New("not one role at the begin")
	}
	at.opened = true
	at.finish = c.Choices[0].FinishReason
	at.text += delta.Content
	at.reasoning += delta.Reasoning
	for _, call := range delta.Calls {
		switch {
		case call.Index == len(at.calls) && call.ID != "" && call.Function.Name != "":
			at.calls = append(at.calls, toolCall{id: call.ID, name: call.Function.Name})
		case call.Index != len(at.calls)-1 || call.ID != "":
			return errors.New("a fragment of a call that is not the last")
		}
		at.calls[call.Index].arguments += call.Function.Arguments
	}
	return nil
}

// chatBody reads a completion.
func chatBody(body []byte, choices int) (*heard, error) {
	h := &heard{choices: make([]choice, choices), ended: true}
	var c chatChunk
	if err := json.Unmarshal(body, &c); err != nil {
		return h, err
	}
	if len(c.Choices) != choices || c.Object != "chat.completion" {
		return h, fmt.Errorf("%d choices of a %s", len(c.Choices), c.Object)
	}
	h.usage, h.id = c.Usage.usage(), c.ID
	for i, from := range c.Choices {
		if from.Index != i {
			return h, fmt.Errorf("choice %d is at %d", from.Index, i)
		}
		to := &h.choices[i]
		to.text, to.reasoning, to.finish = from.Message.Content, from.Message.Reasoning, from.FinishReason
		for _, call := range from.Message.Calls {
			to.calls = append(to.calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
		}
	}
	return h, nil
}
