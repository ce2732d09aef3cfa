package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/sse"
)

// functionMessage is a message, or the sum of its deltas, for clients with functions
// instead of tools.
type functionMessage struct {
	Content      string `json:"content"`
	FunctionCall *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function_call"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// functionBody is a body or a chunk.
type functionBody struct {
	Choices []struct {
		Message      functionMessage `json:"message"`
		Delta        functionMessage `json:"delta"`
		FinishReason string          `json:"finish_reason"`
	} `json:"choices"`
}

// askFunction sends a request and describes the text, call and end of the answer.
func askFunction(s *e2e.Site, stream bool, messages string) string {
	s.T.Helper()
	_, text := s.Post(fmt.Sprintf(`{"model":"gpt-5","stream":%t,"messages":[%s],"functions":[{"name":"localSearch","parameters":{"type":"object"}}]}`, stream, messages), nil)
	if !stream {
		var body functionBody
		if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Choices) != 1 {
			s.T.Fatal(text, err)
		}
		return describeFunction(s.T, body.Choices[0].Message, body.Choices[0].FinishReason)
	}
	var message functionMessage
	finish := ""
	for event, err := range sse.NewReader(strings.NewReader(text), sse.ReaderOptions{}).Events() {
		if err != nil {
			s.T.Fatal(err)
		}
		if event.Data == "[DONE]" {
			continue
		}
		var chunk functionBody
		if err := json.Unmarshal([]byte(event.Data), &chunk); err != nil || len(chunk.Choices) != 1 {
			s.T.Fatal(text, err)
		}
		delta := chunk.Choices[0].Delta
		message.Content += delta.Content
		switch {
		case message.FunctionCall == nil:
			message.FunctionCall = delta.FunctionCall
		case delta.FunctionCall != nil:
			message.FunctionCall.Name += delta.FunctionCall.Name
			message.FunctionCall.Arguments += delta.FunctionCall.Arguments
		}
		message.ToolCalls = append(message.ToolCalls, delta.ToolCalls...)
		finish += chunk.Choices[0].FinishReason
	}
	return describeFunction(s.T, message, finish)
}

func describeFunction(t testing.TB, m functionMessage, finish string) string {
	t.Helper()
	if m.ToolCalls != nil {
		t.Errorf("tool calls %s", m.ToolCalls)
	}
	call := "no call"
	if m.FunctionCall != nil {
		call = m.FunctionCall.Name + m.FunctionCall.Arguments
	}
	return fmt.Sprintf("%q, %s, %s", m.Content, call, finish)
}

// TestFunctions checks that clients with functions get one function_call, and can send
// its result with the role function.
func TestFunctions(t *testing.T) {
	s := e2e.NewSite(t, "")
	const prompt = `{"role":"user","content":"say:Let me look.; tool:2 localSearch {\"query\":\"note %d\"}; then; say:Found."}`
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			s := s.At(t)
			if got, want := askFunction(s, stream, prompt), `"Let me look.", localSearch{"query":"note 1"}, function_call`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			results := prompt + `,{"role":"assistant","content":"Let me look.","function_call":{"name":"localSearch","arguments":"{}"}},` +
				`{"role":"function","name":"localSearch","content":"a note"}`
			if got, want := askFunction(s, stream, results), `"Found.", no call, stop`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := s.Heard(); got[len(got)-1] != "output function_call_1 a note" {
				t.Errorf("the model heard %q", got)
			}
		})
	}
}
