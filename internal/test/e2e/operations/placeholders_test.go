package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestPlaceholders checks the lines of a real access log, with the log_append of
// docs/operations.md: of a streamed and a whole answer of each API, and of requests whose turns
// have not ended, or not well, when Caddy writes the line.
func TestPlaceholders(t *testing.T) {
	appends := regexp.MustCompile(`(?m)^ +log_append \w+ +\{http\.codex\.\w+\}$`).FindAllString(e2e.ReadFile(t, "../../../../docs/operations.md"), -1)
	if len(appends) != 11 {
		t.Fatalf("docs/operations.md has %d lines: %s", len(appends), appends)
	}
	keys, file := newKeyFile(t, map[string]string{"sk-ann": "user ann"}), filepath.Join(t.TempDir(), "access.log")
	s := e2e.NewSite(t, "")
	config := s.Caddyfile("ollama on\napi_keys_file " + keys.path)
	admin := s.WithAdmin(strings.Replace(config, "codex {", "log {\noutput file "+file+" {\nroll_disabled\n}\n}\n"+strings.Join(appends, "\n")+"\ncodex {", 1))
	s.WaitReady()

	header := func(id string) http.Header {
		h := e2e.Bearer("sk-ann")
		h.Set("X-Request-Id", id)
		return h
	}
	// lineOf returns the line of the access log of a request.
	lineOf := func(id string) (line map[string]any) {
		e2e.WaitFor(t, "the line of "+id, func() bool {
			for text := range bytes.Lines([]byte(e2e.ReadFile(t, file))) {
				if bytes.Contains(text, []byte(`"`+id+`"`)) {
					return json.Unmarshal(text, &line) == nil
				}
			}
			return false
		})
		return line
	}
	check := func(id string, want map[string]any) {
		t.Helper()
		line := lineOf(id)
		for key, value := range want {
			if got, written := line[key]; got != value || !written {
				t.Errorf("%s: %s is %v, written: %t, want %v", id, key, got, written, value)
			}
		}
	}

	const prompt = "usage:100,40,7,0; say:ok"
	messages := e2e.Fields{"messages": []any{e2e.UserMessage(prompt)}, "max_tokens": 100}
	for _, api := range []struct {
		name, path string
		body       e2e.Fields
		finish     string
	}{
		{"chat", "/v1/chat/completions", messages, "stop"},
		{"responses", "/v1/responses", e2e.Fields{"input": prompt}, "stop"},
		{"messages", "/v1/messages", messages, "stop"},
		{"ollama", "/api/chat", messages, "stop"},
	} {
		for _, stream := range []bool{false, true} {
			api.body["model"], api.body["stream"] = "gpt-5.5", stream
			id := fmt.Sprintf("%s-%t", api.name, stream)
			response := s.Do(http.MethodPost, api.path, strings.NewReader(e2e.EncodeJSON(api.body)), header(id))
			if text := s.Read(response); response.StatusCode != http.StatusOK {
				t.Fatal(id, response.Status, text)
			}
			check(id, map[string]any{
				"model": "gpt-5.5", "api": api.name, "input_tokens": 100.0, "cached_tokens": 40.0, "output_tokens": 7.0, "tool_calls": 0.0,
				"finish_reason": api.finish, "key": fmt.Sprintf("%x", "sk-ann"), "login": admin.Status().AppServers[0].ID,
			})
			if line := lineOf(id); line["ttft_ms"].(float64) <= 0 || line["thread"] == nil {
				t.Errorf("%s: %v", id, line)
			}
		}
	}

	post := func(id, body string) { s.Post(body, header(id)) }
	post("two-choices", e2e.ChatBody("usage:100,40,7,0; tool:localSearch {}", e2e.Fields{"n": 2, "tools": []any{e2e.Tool("localSearch")}}))
	check("two-choices", map[string]any{"input_tokens": 200.0, "output_tokens": 14.0, "tool_calls": 2.0, "finish_reason": "tool_calls"})
	post("failed", e2e.ChatBody("http:400", nil))
	check("failed", map[string]any{"api": "chat", "finish_reason": nil, "ttft_ms": nil})
	post("refused", "{")
	check("refused", map[string]any{"api": nil, "model": nil, "input_tokens": nil, "login": nil})
	response := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Fields{"model": "gpt-5.5", "input": prompt, "background": true})), header("background"))
	s.Read(response)
	check("background", map[string]any{"status": 200.0, "api": nil, "input_tokens": nil})

	ctx, leave := context.WithCancel(e2e.Context(t))
	response, err := s.Chat(ctx, e2e.ChatBody("say:one two; hang", e2e.Fields{"stream": true}), header("left"))
	if err != nil {
		t.Fatal(err)
	}
	e2e.ReadUntil(t, response.Body, "two")
	leave()
	response.Body.Close()
	if line := lineOf("left"); line["status"] != 200.0 || line["model"] != nil {
		t.Errorf("the line of a client that left: %v", line)
	}
}
