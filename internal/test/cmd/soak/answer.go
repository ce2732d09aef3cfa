package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// said is the content of one choice.
type said struct {
	Text   string
	Calls  []string // in the form name(arguments)
	Finish string
}

// answer is the outcome of a request.
type answer struct {
	id      string // id of a response
	choices []said
	calls   []string // ids of calls
	failed  string   // code of the error, if there was one
}

// inTrouble holds the error codes of requests that may fail because codex was killed
// or stopped. server_error is the only one in streams of the Responses API.
var inTrouble = map[string]bool{
	"codex_exited": true, "codex_not_ready": true, "codex_timeout": true, "codex_unresponsive": true,
	"server_error": true,
}

func equal(got, want []said) bool {
	return slices.EqualFunc(got, want, func(g, w said) bool {
		return g.Text == w.Text && g.Finish == w.Finish && slices.Equal(g.Calls, w.Calls)
	})
}

// beginOf reports whether an incomplete answer is the beginning of the wanted one.
func beginOf(got, want []said) bool {
	if len(got) > len(want) {
		return false
	}
	for i, g := range got {
		w := want[i]
		if !strings.HasPrefix(w.Text, g.Text) || len(g.Calls) > len(w.Calls) {
			return false
		}
		for k, call := range g.Calls { // the last one may be incomplete
			if !strings.HasPrefix(w.Calls[k], strings.TrimSuffix(call, ")")) {
				return false
			}
		}
	}
	return true
}

// readAnswer reads an answer of either API. It returns an error if the answer has no
// valid form or end.
func readAnswer(body io.Reader, status int, q query) (answer, error) {
	if status == http.StatusOK && q.stream {
		if q.path == pathResponses {
			return readResponseStream(body)
		}
		return readChatStream(body)
	}
	text, err := io.ReadAll(body)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("status %d, the body broke off: %w", status, err)
	case status != http.StatusOK:
		code, err := errorCode(text)
		if err != nil {
			return answer{}, fmt.Errorf("status %d: %w", status, err)
		}
		return answer{failed: code}, nil
	case q.path == pathResponses:
		return readResponse(text)
	}
	return readChat(text)
}

// errorCode returns the code in the body of an error, which has four members.
func errorCode(body []byte) (string, error) {
	var e struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return "", fmt.Errorf("%q: %w", body, err)
	}
	for _, member := range []string{"message", "type", "param", "code"} {
		if _, ok := e.Error[member]; !ok {
			return "", fmt.Errorf("%q has no %s", body, member)
		}
	}
	code, _ := e.Error["code"].(string)
	if code == "" {
		return "", fmt.Errorf("%q has no code", body)
	}
	return code, nil
}

// chatMessage is a message or a delta.
type chatMessage struct {
	Content   string               `json:"content"`
	ToolCalls []apiclient.ToolCall `json:"tool_calls"`
}

type chatBody struct {
	Choices []struct {
		Index   int         `json:"index"`
		Message chatMessage `json:"message"`
		Delta   chatMessage `json:"delta"`
		Finish  string      `json:"finish_reason"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
}

func readChat(text []byte) (a answer, err error) {
	var body chatBody
	if err := json.Unmarshal(text, &body); err != nil {
		return a, fmt.Errorf("%q: %w", text, err)
	}
	for i, choice := range body.Choices {
		if choice.Index != i {
			return a, fmt.Errorf("choice %d has the index %d", i, choice.Index)
		}
		one := said{Text: choice.Message.Content, Finish: choice.Finish}
		for _, call := range choice.Message.ToolCalls {
			one.Calls = append(one.Calls, call.Function.Name+"("+call.Function.Arguments+")")
			a.calls = append(a.calls, call.ID)
		}
		a.choices = append(a.choices, one)
	}
	return a, nil
}

// readChatStream reads a stream of chunks, which ends with [DONE].
func readChatStream(body io.Reader) (a answer, err error) {
	reader := apiclient.NewReader(body)
	for {
		event, err := reader.Next()
		if err != nil {
			return a, fmt.Errorf("before [DONE], after %q: %w", a.choices, err)
		}
		if event.Data == "[DONE]" {
			break
		}
		if err := a.chunk([]byte(event.Data)); err != nil {
			return a, err
		}
	}
	for i := range a.choices {
		for k := range a.choices[i].Calls {
			a.choices[i].Calls[k] += ")"
		}
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		return a, fmt.Errorf("after [DONE]: %w", err)
	}
	return a, nil
}

// chunk adds a chunk of a stream. Calls do not get their closing parenthesis yet.
func (a *answer) chunk(data []byte) error {
	var chunk chatBody
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	if chunk.Error != nil {
		code, err := errorCode(data)
		a.failed = code
		return err
	}
	for _, choice := range chunk.Choices {
		for len(a.choices) <= choice.Index {
			a.choices = append(a.choices, said{})
		}
		one := &a.choices[choice.Index]
		if one.Finish != "" || a.failed != "" {
			return fmt.Errorf("after the end: %q", data)
		}
		one.Text += choice.Delta.Content
		one.Finish = choice.Finish
		for _, call := range choice.Delta.ToolCalls {
			if call.Index == len(one.Calls) {
				one.Calls = append(one.Calls, call.Function.Name+"(")
				a.calls = append(a.calls, call.ID)
			}
			if call.Index >= len(one.Calls) {
				return fmt.Errorf("call %d without those before: %q", call.Index, data)
			}
			one.Calls[call.Index] += call.Function.Arguments
		}
	}
	return nil
}

// responseBody is a Response.
type responseBody struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  *struct {
		Code string `json:"code"`
	} `json:"error"`
	Output []struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		CallID    string `json:"call_id"`
		Arguments string `json:"arguments"`
		Content   []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
}

func readResponse(text []byte) (a answer, err error) {
	var body responseBody
	if err := json.Unmarshal(text, &body); err != nil {
		return a, fmt.Errorf("%q: %w", text, err)
	}
	one := said{Finish: body.Status}
	for _, item := range body.Output {
		for _, part := range item.Content {
			one.Text += part.Text
		}
		if item.Type == "function_call" {
			one.Calls = append(one.Calls, item.Name+"("+item.Arguments+")")
			a.calls = append(a.calls, item.CallID)
		}
	}
	if body.Error != nil {
		a.failed = body.Error.Code
	}
	a.id, a.choices = body.ID, []said{one}
	return a, nil
}

// readResponseStream reads a stream of events, whose deltas must match the last event.
func readResponseStream(body io.Reader) (a answer, err error) {
	reader := apiclient.NewReader(body)
	text := ""
	for number := 0; ; number++ {
		frame, err := reader.Next()
		if errors.Is(err, io.EOF) && a.choices != nil {
			break
		}
		if err != nil {
			return a, fmt.Errorf("before the last event, after %q: %w", text, err)
		}
		var event struct {
			Sequence int             `json:"sequence_number"`
			Delta    string          `json:"delta"`
			Response json.RawMessage `json:"response"`
		}
		if err := json.Unmarshal([]byte(frame.Data), &event); err != nil || event.Sequence != number || a.choices != nil {
			return a, fmt.Errorf("event %d is %q: %w", number, frame.Data, err)
		}
		switch frame.Type {
		case "response.output_text.delta":
			text += event.Delta
		case "response.completed", "response.incomplete", "response.failed":
			if a, err = readResponse(event.Response); err != nil {
				return a, err
			}
		}
	}
	if a.choices[0].Text != text {
		return a, fmt.Errorf("the deltas say %q, the response %q", text, a.choices[0].Text)
	}
	return a, nil
}
