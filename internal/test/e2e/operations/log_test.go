package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestTurnLog checks that the log of turns has a line for each turn, nothing else and no content.
func TestTurnLog(t *testing.T) {
	s := e2e.NewSite(t, "")
	dir := t.TempDir()
	turns, rest := filepath.Join(dir, "turns.log"), filepath.Join(dir, "rest.log")
	s.Load(strings.Replace(s.Caddyfile("api_key sk-logged alice"), "admin off", `log turns {
			output file `+turns+` {
				roll_disabled
			}
			include http.handlers.codex.turns
		}
		log default {
			output file `+rest+` {
				roll_disabled
			}
			level DEBUG
			exclude http.handlers.codex.turns
		}
		admin off`, 1))
	s.WaitReady()
	header := e2e.Bearer("sk-logged")
	header.Set("X-Request-Id", "req-of-a-turn")
	body := map[string]any{"stream": true, "messages": []any{
		map[string]any{"role": "system", "content": "PRIVATE-RULES"},
		map[string]any{"role": "user", "content": `say:PRIVATE-ANSWER; tool:localSearch {"query":"PRIVATE-QUERY"}`},
	}}
	if response, text := s.Post(e2e.ChatBody("", body), header); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	// Errors may quote the request.
	for _, wrong := range []string{`{"PRIVATE-FIELD`, `{"model":"gpt-5","messages":[{"role":"PRIVATE-ROLE","content":"x"}]}`, e2e.ChatBody("PRIVATE-MODE", map[string]any{"stop": map[string]any{"PRIVATE-KEY": 1}})} {
		s.Post(wrong, e2e.Bearer("sk-logged"))
	}
	s.Post(e2e.ChatBody("PRIVATE-PROMPT", nil), e2e.Bearer("sk-private-and-wrong"))
	var line map[string]any
	e2e.WaitFor(t, "the line of the turn", func() bool {
		line = e2e.LogLine(t, turns, "turn")
		return line != nil
	})
	for key, want := range map[string]any{
		"logger": "http.handlers.codex.turns", "request_id": "req-of-a-turn", "user": "alice@" + s.Addr, "model": "gpt-5", "output_mode": "openai-json",
		"route": "chat", "status": 200.0, "stream": true, "choice": 0.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if line["duration"].(float64) <= 0 || line["first_output"].(float64) <= 0 || line["input_tokens"].(float64) <= 0 {
		t.Errorf("%v", line)
	}
	inTurns, inRest := e2e.ReadFile(t, turns), e2e.ReadFile(t, rest)
	if n := strings.Count(inTurns, "\n"); n != strings.Count(inTurns, `"msg":"turn"`) || n == 0 {
		t.Errorf("more than turns: %s", inTurns)
	}
	if strings.Contains(inRest, `"msg":"turn"`) || !strings.Contains(inRest, `"msg":"request refused"`) {
		t.Errorf("the other log: %s", inRest)
	}
	for name, text := range map[string]string{"turns": inTurns, "rest": inRest} {
		for _, secret := range []string{"PRIVATE", "sk-logged", "sk-private"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the log %s: %s", secret, name, text)
			}
		}
	}
}

// TestAccessLogKeys checks that with the filter of docs/operations.md Caddy's access log has no
// key, in whatever header it comes.
func TestAccessLogKeys(t *testing.T) {
	_, filter, found := strings.Cut(e2e.ReadFile(t, "../../../../docs/operations.md"), "\n    log {\n        format filter {\n")
	filter, _, ended := strings.Cut(filter, "\n    }\n")
	if !found || !ended {
		t.Fatal("docs/operations.md has no filter")
	}
	s, file := e2e.NewUnstarted(t), filepath.Join(t.TempDir(), "access.log")
	config := s.Caddyfile("api_key " + e2e.SecretKey)
	r := s.RunFile(strings.Replace(config, "codex {", "log {\noutput file "+file+"\nformat filter {\n"+filter+"\n}\ncodex {", 1))
	r.WaitUp()
	headers := []http.Header{e2e.Bearer(e2e.SecretKey), {"Api-Key": {e2e.SecretKey}}, {"X-Api-Key": {e2e.SecretKey}}}
	for _, header := range headers {
		if response := r.Do(http.MethodGet, "/v1/models", nil, header); response.StatusCode != http.StatusOK {
			t.Error(header, response.Status)
		}
	}
	e2e.WaitFor(t, "the access log", func() bool {
		log, err := os.ReadFile(file)
		return err == nil && strings.Count(string(log), "/v1/models") >= len(headers)
	})
	if strings.Contains(e2e.ReadFile(t, file), e2e.SecretKey) {
		t.Error("the key is in the access log")
	}
}

// TestPlaceholders checks the lines of a real access log, with the log_append of
// docs/operations.md: of a streamed and a whole answer of each API, and of requests whose turns
// have not ended, or not well, when Caddy writes the line.
func TestPlaceholders(t *testing.T) {
	appends := regexp.MustCompile(`(?m)^ +log_append \w+ +\{http\.codex\.\w+\}$`).FindAllString(e2e.ReadFile(t, "../../../../docs/operations.md"), -1)
	if len(appends) != 11 {
		t.Fatalf("docs/operations.md has %d lines: %s", len(appends), appends)
	}
	keys, file := e2e.NewKeyFile(t, map[string]string{"sk-ann": "user ann"}), filepath.Join(t.TempDir(), "access.log")
	s := e2e.NewSite(t, "")
	config := s.Caddyfile("ollama on\napi_keys_file " + keys.Path)
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
			response, text := s.Call(http.MethodPost, api.path, api.body, header(id))
			if response.StatusCode != http.StatusOK {
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
	s.Call(http.MethodPost, "/v1/responses", e2e.Fields{"model": "gpt-5.5", "input": prompt, "background": true}, header("background"))
	check("background", map[string]any{"status": 200.0, "api": nil, "input_tokens": nil})

	ctx, leave := context.WithCancel(e2e.Context(t))
	response, err := s.Chat(ctx, e2e.ChatBody("say:one two; hang", e2e.Fields{"stream": true}), header("left"))
	must.OK(t, err)
	e2e.ReadUntil(t, response.Body, "two")
	leave()
	response.Body.Close()
	if line := lineOf("left"); line["status"] != 200.0 || line["model"] != nil {
		t.Errorf("the line of a client that left: %v", line)
	}
}

// collector receives the spans that Caddy exports.
type collector struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// has reports whether all texts are in what was received. In protobuf, texts are there as
// they are.
func (c *collector) has(texts ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range texts {
		if !strings.Contains(c.text.String(), text) {
			return false
		}
	}
	return true
}

// TestTraces checks that the span of Caddy's tracing has the attributes of a turn, and
// nothing that was said, and that Caddy's `metrics { otlp }` exports this module's metrics.
func TestTraces(t *testing.T) {
	var spans collector
	server := httptest.NewServer(&spans)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
	s := e2e.NewSite(t, "")
	config := s.Wrap("tracing {\nspan codex\n}\ncodex {\n" + s.AppServer() + "\nmodel fast gpt-5\n}")
	s.Load(strings.Replace(config, "admin off", "admin off\nmetrics {\notlp\n}", 1))
	s.WaitReady()
	for _, stream := range []bool{false, true} {
		response, text := s.Post(e2e.ChatBody("say:PRIVATE-ANSWER", map[string]any{"model": "fast", "stream": stream}), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, "PRIVATE-ANSWER") {
			t.Errorf("%d %s", response.StatusCode, text)
		}
	}
	e2e.WaitFor(t, "the spans", func() bool {
		return spans.has("gen_ai.request.model", "fast", "gen_ai.response.model", "gpt-5", "gen_ai.response.finish_reasons", "stop",
			"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
	})
	response, text := s.Post(e2e.ChatBody("say:x", map[string]any{"model": 5}), nil)
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	e2e.WaitFor(t, "the error", func() bool { return spans.has("error.type", "invalid_type") })
	e2e.WaitFor(t, "the metrics", func() bool { return spans.has("codex_requests_total", "gen_ai_server_request_duration_seconds") })
	if spans.has("PRIVATE-ANSWER") {
		t.Error("the trace has what was said")
	}
}
