package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// sdkAnswer is what Anthropic's SDK got for a request, or its error.
type sdkAnswer struct {
	Message struct {
		Content    []struct{ Type, Text string }
		StopReason string `json:"stop_reason"`
		Usage      struct {
			Input     int `json:"input_tokens"`
			CacheRead int `json:"cache_read_input_tokens"`
		}
		Management *struct {
			Applied []struct {
				Type     string
				ToolUses int `json:"cleared_tool_uses"`
				Turns    int `json:"cleared_thinking_turns"`
				Tokens   int `json:"cleared_input_tokens"`
			} `json:"applied_edits"`
		} `json:"context_management"`
	}
	Count struct {
		Input      int `json:"input_tokens"`
		Management struct {
			Original int `json:"original_input_tokens"`
		} `json:"context_management"`
	}
	Error  string
	Status int
}

// runSDK asks prompts in a conversation of Anthropic's SDK. It returns the answers to each prompt: calls get results,
// and are followed by another answer.
func runSDK(s *e2e.Site, body e2e.Fields, results string, prompts ...string) (all [][]sdkAnswer) {
	s.T.Helper()
	script, err := filepath.Abs("../clients/anthropic-session.js")
	must.OK(s.T, err)
	ctx, cancel := context.WithTimeout(s.T.Context(), 2*e2e.Deadline)
	defer cancel()
	work := e2e.Fields{"body": e2e.MessageBody("", body), "prompts": prompts, "results": results}
	cmd := exec.CommandContext(ctx, "node", script, s.URL, e2e.EncodeJSON(work))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.T.Fatalf("%v: %s%s", err, out, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var answers []sdkAnswer
		must.OK(s.T, d.Decode(&answers))
		all = append(all, answers)
	}
	return all
}

// TestContextEdits lets the model use a tool often: it reads no old results, but notes in their place, and nearly all of what
// it is sent was sent before, since the results are cleared a few at a time.
func TestContextEdits(t *testing.T) {
	if _, err := os.Stat("../clients/node_modules/.package-lock.json"); err != nil {
		needs.Missing(t, "Anthropic's SDK is not installed: run `make deps`")
	}
	const uses = 20
	s := e2e.NewSite(t, "")
	s.Model.SetWindow(100_000)
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		out := []scriptedmodel.Output{scriptedmodel.Reason("Hm."), scriptedmodel.Call{Name: "f", Arguments: fmt.Sprintf(`{"q":"%d"}`, len(r.ToolResults()))}}
		if len(r.ToolResults()) == uses {
			out = []scriptedmodel.Output{scriptedmodel.Reason("So."), scriptedmodel.Say("Done.")}
		}
		return scriptedmodel.Script{Output: out}, true
	}))
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		begin := len(s.Model.Requests())
		prompts := runSDK(s, e2e.Fields{
			"stream": stream, "tools": []any{tool("f")}, "thinking": e2e.Fields{"type": "adaptive"},
			"context_management": e2e.Fields{"edits": []any{
				e2e.Fields{"type": "clear_thinking_20251015", "keep": e2e.Fields{"type": "thinking_turns", "value": 1}},
				e2e.Fields{
					"type": "clear_tool_uses_20250919", "trigger": e2e.Fields{"type": "input_tokens", "value": 6000}, "keep": e2e.Fields{"type": "tool_uses", "value": 2},
					"clear_at_least": e2e.Fields{"type": "input_tokens", "value": 1000},
				},
			}},
		}, strings.Repeat("word ", 400), "Go.", "Again.")
		if len(prompts) != 2 || len(prompts[0]) != uses+1 || len(prompts[1]) != uses+1 {
			t.Fatalf("%+v", prompts)
		}
		input, cached := 0, 0
		for _, a := range prompts[0] {
			input, cached = input+a.Message.Usage.Input+a.Message.Usage.CacheRead, cached+a.Message.Usage.CacheRead
			if a.Message.Management == nil || a.Count.Management.Original < a.Count.Input {
				t.Fatalf("%+v", a)
			}
		}
		if share := float64(cached) / float64(input); share < 0.75 {
			t.Errorf("%.2f of the input is from the cache", share)
		}
		last := prompts[1][uses]
		applied := last.Message.Management.Applied
		if len(applied) != 2 || applied[0].Type != "clear_thinking_20251015" || applied[0].Turns != 1 || applied[1].ToolUses < 2*uses-16 || last.Message.Content[1].Text != "Done." {
			t.Errorf("%+v", last)
		}
		if saved := last.Count.Management.Original - last.Count.Input; saved != applied[0].Tokens+applied[1].Tokens || saved < 10_000 {
			t.Errorf("%+v", last)
		}
		requests := s.Model.Requests()[begin:]
		final := string(requests[len(requests)-1].Body)
		if cleared := strings.Count(final, "This result was removed"); cleared != applied[1].ToolUses || strings.Count(final, strings.Repeat("word ", 400)) != 2*uses-cleared {
			t.Errorf("%d results are cleared", cleared)
		}
		if reasoned := strings.Count(final, `"type":"reasoning"`); reasoned != uses {
			t.Errorf("%d items of reasoning", reasoned)
		}
		for i, r := range requests {
			if r.Tokens > 15_000 { // of 40,000
				t.Errorf("request %d has %d tokens", i, r.Tokens)
			}
		}
	})
	failed := runSDK(s, e2e.Fields{"context_management": e2e.Fields{"edits": []any{e2e.Fields{"type": "clear_01"}}}}, "", "Hi")[0][0]
	if failed.Status != 400 || !strings.Contains(failed.Error, "context_management.edits.0.type: must be clear_thinking_20251015, ") {
		t.Errorf("%+v", failed)
	}
}
