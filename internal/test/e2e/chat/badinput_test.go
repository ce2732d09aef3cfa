package chat

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestBadInput checks that an invalid request is refused with OpenAI's error object and
// the field, and does not reach the model.
func TestBadInput(t *testing.T) {
	s := e2e.NewSite(t, "max_body 64KiB")
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct {
		body   string
		status int
		param  string
	}{
		"not JSON":                {`{"model": "gpt-5",`, 400, ""},
		"empty":                   {``, 400, ""},
		"unknown role":            {`{"model":"gpt-5","messages":[{"role":"robot","content":"hi"}]}`, 400, "messages[0].role"},
		"content of a wrong type": {`{"model":"gpt-5","messages":[{"role":"user","content":5}]}`, 400, "messages[0].content"},
		"remote image":            {`{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, 400, "messages[0].content[0].image_url"},
		"tool without a name":     {`{"model":"gpt-5",` + hi + `,"tools":[{"type":"function","function":{}}]}`, 400, "tools[0].function.name"},
		"tool_choice of nobody":   {`{"model":"gpt-5",` + hi + `,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"b"}}}`, 400, "tool_choice"},
		"too many choices":        {`{"model":"gpt-5",` + hi + `,"n":9}`, 400, "n"},
		"a body over the limit":   {`{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x", 70_000) + `"}]}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			response, text := s.At(t).Post(c.body, nil)
			if response.StatusCode != c.status {
				t.Fatalf("%s %s", response.Status, text)
			}
			e2e.CheckEnvelope(t, response, text, c.param)
		})
	}
	if n := s.Model.Stats().Requests; n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestDeepBodies checks that Codex answers the deepest body that is taken, in each API, and that a
// deeper one is refused at once. Codex itself gives no answer to a message that is too deep.
func TestDeepBodies(t *testing.T) {
	s := e2e.NewSite(t, "")
	const most = 126
	for path, c := range map[string]struct {
		before string // the body before the schema of a tool
		levels int    // of the body above the schema
		after  string
	}{
		"/v1/chat/completions": {`{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":`, 4, `}}]}`},
		"/v1/responses":        {`{"model":"gpt-5","input":"hi","tools":[{"type":"function","name":"f","parameters":`, 3, `}]}`},
		"/v1/messages":         {`{"model":"gpt-5","max_tokens":99,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":`, 3, `}]}`},
	} {
		for total, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusBadRequest} {
			properties := total - c.levels - 1
			body := c.before + strings.Repeat(`{"a":`, properties) + `{}` + strings.Repeat(`}`, properties) + c.after
			response := s.Do(http.MethodPost, path, strings.NewReader(body), nil)
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s with %d levels: %s", path, total, response.Status)
			}
		}
	}
}
