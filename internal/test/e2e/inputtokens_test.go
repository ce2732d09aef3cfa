package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestInputTokens counts requests without asking the model.
func TestInputTokens(t *testing.T) {
	s := newSite(t, "")
	count := func(request fields) int {
		t.Helper()
		answer := s.do(http.MethodPost, "/v1/responses/input_tokens", strings.NewReader(encodeJSON(request)), nil)
		text := s.read(answer)
		var body struct {
			Object string `json:"object"`
			Tokens int    `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil || answer.StatusCode != http.StatusOK || body.Object != "response.input_tokens" {
			t.Fatal(answer.Status, text, err)
		}
		return body.Tokens
	}
	r := s.respond(asks("say:one two three", nil), nil)
	asked := len(s.model.Requests())
	text := count(asks("one two three", nil))
	if text != 3+4 {
		t.Errorf("a text: %d", text)
	}
	if n := count(asks("one two three", fields{"instructions": "Be brief.", "tools": []fields{functionTool("f")}})); n < text+20 {
		t.Errorf("with a tool: %d", n)
	}
	if n := count(asks("one two three", fields{"previous_response_id": r.ID})); n <= text+3 {
		t.Errorf("with a response before: %d", n)
	}
	if more := len(s.model.Requests()) - asked; more != 0 {
		t.Errorf("the model was asked %d times", more)
	}
	for path, want := range map[string]int{"input_tokens": http.StatusBadRequest, "compact": http.StatusNotFound} {
		answer := s.do(http.MethodPost, "/v1/responses/"+path, strings.NewReader(`{"model":"m","input":7}`), nil)
		if text := s.read(answer); answer.StatusCode != want || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: %s %s", path, answer.Status, text)
		}
	}
}

// TestImageJPG: many clients name JPEG images by the ending of their files.
func TestImageJPG(t *testing.T) {
	s := newSite(t, "")
	const image = `{"type":"image_url","image_url":{"url":"data:image/jpg;base64,/9j/4AAQ"}}`
	answer, text := s.post(`{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"say:Seen."},`+image+`]}]}`, nil)
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, "Seen.") {
		t.Errorf("%s %s", answer.Status, text)
	}
}
