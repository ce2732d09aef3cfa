package apierror

import "testing"

// TestUnknownPaths checks what a client with a wrong URL is told.
func TestUnknownPaths(t *testing.T) {
	const base = "https://api.example.com/v1"
	for want, e := range map[string]*Error{
		"Unknown request URL: GET /v1/nothing. This server has /v1/chat/completions, /v1/responses, /v1/messages, /v1/conversations, /v1/models and /v1/usage.": NotFound("GET", "/v1/nothing"),
		"The models of this server are chat models, which are not in POST /v1/completions. Did you mean to use /v1/chat/completions?":                           NotFound("POST", "/v1/completions"),
		"Codex has no embeddings, so this server has no POST /v1/embeddings. Its operator can pass such paths to another provider, see docs/routes.md.":         NotFound("POST", "/v1/embeddings"),
		"This is an OpenAI-compatible API with the base URL https://api.example.com/v1; there is nothing at GET /nothing.":                                      NotTheAPI("GET", "/nothing", base),
	} {
		if e.Message != want || e.Status != 404 {
			t.Errorf("%d %q, want %q", e.Status, e.Message, want)
		}
	}
}
