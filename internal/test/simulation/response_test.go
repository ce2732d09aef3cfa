package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// responseEvent is an event of a streamed response.
type responseEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Response json.RawMessage `json:"response"`
	Output   int             `json:"output_index"`
	Item     responseItem    `json:"item"`
	Summary  int             `json:"summary_index"`
	Delta    string          `json:"delta"`
}

// response is a Response object.
type response struct {
	ID                string         `json:"id"`
	Status            string         `json:"status"`
	Error             *responseError `json:"error"`
	IncompleteDetails *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []responseItem `json:"output"`
	Usage  *struct {
		Input   int `json:"input_tokens"`
		Output  int `json:"output_tokens"`
		InputOf struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputOf struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responseItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text string `json:"text"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// responseBody reads a response that is not streamed.
func responseBody(body []byte) (*heard, error) {
	h := &heard{choices: make([]choice, 1), ended: true}
	return h, h.whole(body)
}

// whole reads a final Response.
func (h *heard) whole(object []byte) error {
	var r response
	if err := json.Unmarshal(object, &r); err != nil {
		return err
	}
	h.id, h.object = r.ID, object
	c := &h.choices[0]
	*c = choice{}
	var texts, thoughts []string
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			text := ""
			for _, part := range item.Content {
				text += part.Text
			}
			texts, h.texts = append(texts, text), append(h.texts, text)
		case "reasoning":
			h.texts = append(h.texts, "")
			for _, part := range item.Summary {
				thoughts = append(thoughts, part.Text)
			}
		case "function_call":
			c.calls = append(c.calls, toolCall{item.CallID, item.Name, item.Arguments})
		default:
			return fmt.Errorf("an item of type %q", item.Type)
		}
	}
	c.text, c.reasoning = strings.Join(texts, "\n\n"), strings.Join(thoughts, "\n\n")
	if r.Usage != nil {
		h.usage = &usage{r.Usage.Input, r.Usage.Output, r.Usage.InputOf.Cached, r.Usage.OutputOf.Reasoning}
	}
	switch r.Status {
	case "completed":
		c.finish = "stop"
		if len(c.calls) > 0 {
			c.finish = "tool_calls"
		}
	case "incomplete":
		c.finish = "length"
	case "failed", "cancelled":
		if r.Error == nil {
			return fmt.Errorf("a response that is %s has no error", r.Status)
		}
		h.failed, h.code = true, r.Error.Code
		if r.Status == "cancelled" {
			h.code = "response_cancelled"
		}
	default:
		return fmt.Errorf("the response is %s at its end", r.Status)
	}
	return nil
}

// terminal are the events that end a stream.
var terminal = []string{"response.completed", "response.incomplete", "response.failed"}

// responseStream reads a stream of events. The deltas must match the final response.
func responseStream(body []byte) (*heard, error) {
	h := &heard{choices: make([]choice, 1)}
	all, err := events(body)
	if err != nil {
		return h, err
	}
	var items []responseItem
	for i, sent := range all {
		var e responseEvent
		if err := json.Unmarshal([]byte(sent.Data), &e); err != nil {
			return h, fmt.Errorf("%w: %.200s", err, sent.Data)
		}
		switch {
		case h.ended:
			return h, fmt.Errorf("after the end: %.200s", sent.Data)
		case e.Type != sent.Type:
			return h, fmt.Errorf("the event %s is of type %s", sent.Type, e.Type)
		case e.Sequence != i:
			return h, fmt.Errorf("event %d has the number %d", i, e.Sequence)
		case (i == 0) != (e.Type == "response.created"), (i == 1) != (e.Type == "response.in_progress"):
			return h, fmt.Errorf("event %d is %s", i, e.Type)
		}
		if slices.Contains(terminal, e.Type) {
			h.ended = true
			deltas := collect(items)
			if err := h.whole(e.Response); err != nil {
				return h, err
			}
			if end := h.choices[0]; end.text != deltas.text || end.reasoning != deltas.reasoning || !slices.Equal(end.calls, deltas.calls) {
				return h, fmt.Errorf("the deltas say %.300q, the end says %.300q", fmt.Sprint(deltas), fmt.Sprint(end))
			}
			continue
		}
		if items, err = e.apply(items); err != nil {
			return h, fmt.Errorf("%w: %.300s", err, sent.Data)
		}
		if i == 0 {
			var r response
			if err := json.Unmarshal(e.Response, &r); err != nil {
				return h, err
			}
			h.id = r.ID
		}
	}
	if !h.ended {
		h.choices[0] = collect(items)
	}
	return h, nil
}

// apply applies an event to the items.
func (e *responseEvent) apply(items []responseItem) ([]responseItem, error) {
	if e.Type == "response.output_item.added" {
		if e.Output != len(items) {
			return items, errors.New("an item at the wrong place")
		}
		item := e.Item
		item.Content, item.Summary, item.Arguments = nil, nil, ""
		return append(items, item), nil
	}
	if e.Response != nil {
		return items, nil
	}
	if e.Output != len(items)-1 {
		return items, errors.New("an event of an item that is not the last")
	}
	item := &items[e.Output]
	switch e.Type {
	case "response.output_text.delta":
		if len(item.Content) == 0 {
			item.Content = make([]struct {
				Text string `json:"text"`
			}, 1)
		}
		item.Content[0].Text += e.Delta
	case "response.reasoning_summary_text.delta":
		for len(item.Summary) <= e.Summary {
			item.Summary = append(item.Summary, struct {
				Text string `json:"text"`
			}{})
		}
		item.Summary[e.Summary].Text += e.Delta
	case "response.function_call_arguments.delta":
		item.Arguments += e.Delta
	}
	return items, nil
}

// collect returns the content of items.
func collect(items []responseItem) (c choice) {
	var texts, thoughts []string
	for _, item := range items {
		switch item.Type {
		case "message":
			text := ""
			for _, part := range item.Content {
				text += part.Text
			}
			texts = append(texts, text)
		case "reasoning":
			for _, part := range item.Summary {
				thoughts = append(thoughts, part.Text)
			}
		case "function_call":
			c.calls = append(c.calls, toolCall{item.CallID, item.Name, item.Arguments})
		}
	}
	c.text, c.reasoning = strings.Join(texts, "\n\n"), strings.Join(thoughts, "\n\n")
	return c
}
