package prompt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// TestTooManyItems: what is tiny in the body is not here.
func TestTooManyItems(t *testing.T) {
	chatOf := func(body string) *apierror.Error { _, apiErr := chat.Decode([]byte(body)); return apiErr }
	responseOf := func(body string) *apierror.Error { _, apiErr := responses.Decode([]byte(body)); return apiErr }
	resolved := func(body string) *apierror.Error {
		r, apiErr := responses.Decode([]byte(body))
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		earlier := make([]json.RawMessage, prompt.MaxItems)
		for i := range earlier {
			earlier[i] = json.RawMessage(`{"role":"user","content":"x"}`)
		}
		return r.Resolve(earlier, nil)
	}
	tooMany := func(one string) string { return strings.Repeat(one+",", prompt.MaxItems) + one }
	const one = `{"role":"user","content":"x"}`
	const four = `{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"text","text":"z"}]}`
	for name, c := range map[string]struct {
		decode      func(string) *apierror.Error
		body, param string
	}{
		"messages":          {chatOf, withMessages(tooMany(one)), "messages"},
		"items":             {responseOf, withInput(tooMany(one)), "input"},
		"parts":             {chatOf, withMessages(`{"role":"user","content":[` + tooMany(`{"type":"text","text":"x"}`) + `]}`), "messages[0].content"},
		"parts of items":    {responseOf, withInput(`{"role":"user","content":[` + tooMany(`{"type":"input_text","text":"x"}`) + `]}`), "input[0].content"},
		"calls":             {chatOf, withMessages(`{"role":"assistant","tool_calls":[` + tooMany(`{"id":"c","function":{"name":"f","arguments":""}}`) + `]}`), "messages[0].tool_calls"},
		"all together":      {chatOf, withMessages(strings.Repeat(four+",", prompt.MaxItems/4) + one), "messages"},
		"tools":             {responseOf, withInput(`{"type":"additional_tools","tools":[` + tooMany(`{"type":"custom","name":"f"}`) + `]}`), "input[0].tools"},
		"items before":      {resolved, `{"model":"m","previous_response_id":"r","input":[` + one + `]}`, "previous_response_id"},
		"as many as may be": {chatOf, withMessages(strings.Repeat(one+",", prompt.MaxItems-1) + one), ""},
	} {
		if apiErr := c.decode(c.body); (apiErr == nil) != (c.param == "") || apiErr != nil && apiErr.Param != c.param {
			t.Errorf("too many %s: %v, want the param %q", name, apiErr, c.param)
		}
	}
}
