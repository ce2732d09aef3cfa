package demomodel

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestServed: the model's deltas are its whole answer, settings before a question apply, directives are
// scripts as in tests, and invalid ones a question.
func TestServed(t *testing.T) {
	model := scriptedmodel.New(scriptedmodel.Options{Answer: Model{}.Answer, AnswersInvalid: true})
	server := httptest.NewServer(model)
	t.Cleanup(func() {
		model.Close()
		server.Close()
	})
	for question, want := range map[string]string{
		"delay=1ms; firstdelay=1ms; Some Go code": "```go",
		"delay=1ms; firstdelay=1ms; 6*7":          "**42**",
		"say:Hello; how are you?":                 "Hello; how are you?",
		"then":                                    "demo",
	} {
		body, err := json.Marshal(map[string]any{"model": "gpt-5", "stream": true, "input": question})
		must.OK(t, err)
		response, err := http.Post(server.URL+"/v1/responses", "application/json", strings.NewReader(string(body)))
		must.OK(t, err)
		events, err := io.ReadAll(response.Body)
		must.OK(t, err)
		_ = response.Body.Close()
		deltas, whole := "", ""
		for line := range strings.Lines(string(events)) {
			event := gjson.Parse(strings.TrimPrefix(line, "data: "))
			switch event.Get("type").Str {
			case "response.output_text.delta":
				deltas += event.Get("delta").Str
			case "response.output_text.done":
				whole = event.Get("text").Str
			}
		}
		if deltas != whole || !strings.Contains(whole, want) {
			t.Errorf("%s: %q, in deltas %q", question, whole, deltas)
		}
	}
}
