// Package codexhome writes a CODEX_HOME for a local model, for tests, recordings and the demo.
package codexhome

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Options configure how Codex uses the model server.
type Options struct {
	// Name is the name of the provider; empty: scripted. With "OpenAI", Codex uses what only OpenAI has.
	Name string
	// StreamRetries is how often Codex retries a stream that was cut.
	StreamRetries int
	// WebSockets lets Codex use WebSockets, as with OpenAI's server, instead of HTTP.
	WebSockets bool
	// More are further lines for the top level of config.toml.
	More string
}

// Write writes config.toml into dir, the CODEX_HOME. baseURL is the model server's, with /v1.
func Write(dir, baseURL string, opts Options) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	config := fmt.Sprintf(`model = "gpt-5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
%s
[analytics]
enabled = false

[model_providers.scripted]
name = %q
base_url = %q
wire_api = "responses"
requires_openai_auth = false
supports_websockets = %t
request_max_retries = 0
stream_max_retries = %d
`, opts.More, cmp.Or(opts.Name, "scripted"), baseURL, opts.WebSockets, opts.StreamRetries)
	return os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600)
}
