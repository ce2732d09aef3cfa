package prompt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// pngURL is a valid data URL of an image.
const pngURL = "data:image/png;base64,iVBORw0KGgo="

// withFields is a valid request with more fields.
func withFields(fields string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + fields + `}`
}

// withMessages is a valid request but for its messages.
func withMessages(messages string) string {
	return `{"model":"m","messages":[` + messages + `]}`
}

// withTool is a request that declares one tool.
func withTool(function, more string) string {
	return withFields(`"tools":[{"type":"function","function":` + function + `}]` + more)
}

// remoteImages is a message with n images elsewhere.
func remoteImages(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`{"type":"image_url","image_url":{"url":"https://example.com/%d.png"}}`, i)
	}
	return `{"role":"user","content":[` + strings.Join(parts, ",") + `]}`
}

func mustDecode(t *testing.T, body string) *chat.Request {
	t.Helper()
	r, err := chat.Decode([]byte(body))
	if err != nil {
		t.Fatalf("%s\nrefused: %v", body, err)
	}
	return r
}

func mustPlan(t *testing.T, body string) *prompt.Plan {
	t.Helper()
	p, err := mustDecode(t, body).Plan(prompt.Options{})
	if err != nil {
		t.Fatalf("%s\nno plan: %v", body, err)
	}
	return p
}

// withInput is a request of the Responses API with these input items.
func withInput(items string) string { return `{"model":"m","input":[` + items + `]}` }
