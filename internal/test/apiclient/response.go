package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/sse"
)

type responseBody struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
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

type responseItem struct {
	Type      string     `json:"type"`
	CallID    string     `json:"call_id"`
	Name      string     `json:"name"`
	Arguments string     `json:"arguments"`
	Content   []textPart `json:"content"`
	Summary   []textPart `json:"summary"`
	Encrypted string     `json:"encrypted_content"`
}

type textPart struct {
	Text string `json:"text"`
}

// content returns the content of items, with the texts of [Answer].
func content(items []responseItem) (c Choice, texts []string, err error) {
	var said, thoughts []string
	for _, item := range items {
		switch item.Type {
		case "message":
			text := ""
			for _, part := range item.Content {
				text += part.Text
			}
			said, texts = append(said, text), append(texts, text)
		case "reasoning":
			texts = append(texts, "")
			for _, part := range item.Summary {
				thoughts = append(thoughts, part.Text)
			}
		case "function_call":
			c.Calls = append(c.Calls, Call{item.CallID, item.Name, item.Arguments})
		case "compaction":
			texts = append(texts, "")
			c.Sealed = append(c.Sealed, item.Encrypted)
		default:
			return c, nil, fmt.Errorf("an item of type %q", item.Type)
		}
	}
	c.Text, c.Reasoning = strings.Join(said, "\n\n"), strings.Join(thoughts, "\n\n")
	return c, texts, nil
}

func (a *Answer) response(object []byte) error {
	var r responseBody
	err := json.Unmarshal(object, &r)
	if err != nil {
		return err
	}
	a.ID, a.Object, a.Ended = r.ID, object, true
	c := &a.Choices[0]
	if *c, a.Texts, err = content(r.Output); err != nil {
		return err
	}
	if r.Usage != nil {
		a.Usage = &Usage{r.Usage.Input, r.Usage.Output, r.Usage.InputOf.Cached, r.Usage.OutputOf.Reasoning}
	}
	switch r.Status {
	case "completed":
		c.Finish = "stop"
		if len(c.Calls) > 0 {
			c.Finish = "tool_calls"
		}
	case "incomplete":
		c.Finish = "length"
	case "failed", "cancelled":
		if r.Error == nil {
			return fmt.Errorf("a response that is %s has no error", r.Status)
		}
		a.Failed, a.Code = true, r.Error.Code
		if r.Status == "cancelled" {
			a.Code = "response_cancelled"
		}
	default:
		return fmt.Errorf("the response is %s at its end", r.Status)
	}
	return nil
}

type responseEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Response json.RawMessage `json:"response"`
	Output   int             `json:"output_index"`
	Item     responseItem    `json:"item"`
	Summary  int             `json:"summary_index"`
	Delta    string          `json:"delta"`
}

type responseReader struct {
	answer *Answer
	events int
	items  []responseItem
}

// stream reads a stream of events, whose deltas must match the final Response.
func (r *responseReader) stream(body []byte) (err error) {
	if err = r.answer.eachEvent(body, r.event); err == nil && !r.answer.Ended {
		r.answer.Choices[0], _, err = content(r.items)
	}
	return err
}

func (r *responseReader) event(sent sse.Event) error {
	var e responseEvent
	if err := json.Unmarshal([]byte(sent.Data), &e); err != nil {
		return err
	}
	i := r.events
	r.events++
	switch {
	case e.Type != sent.Type:
		return fmt.Errorf("the event %s is of type %s", sent.Type, e.Type)
	case e.Sequence != i:
		return fmt.Errorf("event %d has the number %d", i, e.Sequence)
	case (i == 0) != (e.Type == "response.created"), (i == 1) != (e.Type == "response.in_progress"):
		return fmt.Errorf("event %d is %s", i, e.Type)
	}
	switch e.Type {
	case "response.created":
		return json.Unmarshal(e.Response, &struct{ ID *string }{&r.answer.ID})
	case "response.in_progress":
		return nil
	case "response.completed", "response.incomplete", "response.failed":
		return r.end(e.Response)
	}
	return r.apply(&e)
}

func (r *responseReader) end(object []byte) error {
	deltas, _, err := content(r.items)
	if err = errors.Join(err, r.answer.response(object)); err != nil {
		return err
	}
	if end := r.answer.Choices[0]; end.Text != deltas.Text || end.Reasoning != deltas.Reasoning || !slices.Equal(end.Calls, deltas.Calls) || len(end.Sealed) != len(deltas.Sealed) {
		return fmt.Errorf("the deltas say %.300q, the end says %.300q", fmt.Sprint(deltas), fmt.Sprint(end))
	}
	return nil
}

func (r *responseReader) apply(e *responseEvent) error {
	if e.Type == "response.output_item.added" {
		if e.Output != len(r.items) {
			return errors.New("an item at the wrong place")
		}
		item := e.Item
		item.Content, item.Summary, item.Arguments = nil, nil, ""
		r.items = append(r.items, item)
		return nil
	}
	if e.Output != len(r.items)-1 {
		return errors.New("an event of an item that is not the last")
	}
	item := &r.items[e.Output]
	switch e.Type {
	case "response.output_text.delta":
		if len(item.Content) == 0 {
			item.Content = make([]textPart, 1)
		}
		item.Content[0].Text += e.Delta
	case "response.reasoning_summary_text.delta":
		for len(item.Summary) <= e.Summary {
			item.Summary = append(item.Summary, textPart{})
		}
		item.Summary[e.Summary].Text += e.Delta
	case "response.function_call_arguments.delta":
		item.Arguments += e.Delta
	}
	return nil
}
