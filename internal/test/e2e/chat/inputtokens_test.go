package chat

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestInputTokens counts requests without asking the model.
func TestInputTokens(t *testing.T) {
	s := e2e.NewSite(t, "")
	count := func(request e2e.Fields) int {
		t.Helper()
		answer := s.Do(http.MethodPost, "/v1/responses/input_tokens", strings.NewReader(e2e.EncodeJSON(request)), nil)
		text := s.Read(answer)
		var body struct {
			Object string `json:"object"`
			Tokens int    `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil || answer.StatusCode != http.StatusOK || body.Object != "response.input_tokens" {
			t.Fatal(answer.Status, text, err)
		}
		return body.Tokens
	}
	r := s.Respond(e2e.Asks("say:one two three", nil), nil)
	asked := len(s.Model.Requests())
	text := count(e2e.Asks("one two three", nil))
	if text != 3+4 {
		t.Errorf("a text: %d", text)
	}
	if n := count(e2e.Asks("one two three", e2e.Fields{"instructions": "Be brief.", "tools": []e2e.Fields{e2e.FunctionTool("f")}})); n < text+20 {
		t.Errorf("with a tool: %d", n)
	}
	if n := count(e2e.Asks("one two three", e2e.Fields{"previous_response_id": r.ID})); n <= text+3 {
		t.Errorf("with a response before: %d", n)
	}
	if more := len(s.Model.Requests()) - asked; more != 0 {
		t.Errorf("the model was asked %d times", more)
	}
	for path, want := range map[string]int{"input_tokens": http.StatusBadRequest, "compact": http.StatusNotFound} {
		answer := s.Do(http.MethodPost, "/v1/responses/"+path, strings.NewReader(`{"model":"m","input":7}`), nil)
		if text := s.Read(answer); answer.StatusCode != want || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: %s %s", path, answer.Status, text)
		}
	}
}

// TestImageJPG: many clients name JPEG images by the ending of their files.
func TestImageJPG(t *testing.T) {
	s := e2e.NewSite(t, "")
	const image = `{"type":"image_url","image_url":{"url":"data:image/jpg;base64,/9j/4AAQ"}}`
	answer, text := s.Post(`{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"say:Seen."},`+image+`]}]}`, nil)
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, "Seen.") {
		t.Errorf("%s %s", answer.Status, text)
	}
}
