package messages

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// The requests in this file have the form in which Claude Code sends them.

// claudeCode returns a request of Claude Code's, beginning with its conversation's billing block.
func claudeCode(conversation string, more e2e.Fields) e2e.Fields {
	text := func(text string) e2e.Fields { return e2e.Fields{"type": "text", "text": text} }
	cached := text("You write code.\n\nBe brief.")
	cached["cache_control"] = e2e.Fields{"type": "ephemeral", "ttl": "1h"}
	body := e2e.Fields{
		"model": "claude-opus-5-5", "max_tokens": 128000, "stream": true,
		"system":             []any{text("x-anthropic-billing-header: cc_version=2.1.330." + conversation + "; cc_entrypoint=cli;"), text("You are Claude Code."), cached},
		"thinking":           e2e.Fields{"type": "adaptive", "display": "updates"},
		"output_config":      e2e.Fields{"effort": "medium"},
		"context_management": e2e.Fields{"edits": []any{e2e.Fields{"type": "clear_thinking_20251015", "keep": "all"}}},
		"metadata":           e2e.Fields{"user_id": `{"device_id":"d","account_uuid":"","session_id":"s"}`},
	}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// TestTitle: a request for a title comes beside the first one, with the same prompt and a schema
// instead of tools. Neither disturbs the other, and the conversation goes on in its thread.
func TestTitle(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			if r.Text.Format.Type == "json_schema" && strings.Contains(string(r.Text.Format.Schema), `"title"`) {
				return saying(`{"title":"The beans"}`), true
			}
			_, answered := lastResult(r)
			return map[bool]scriptedmodel.Script{false: calling(use("Bash", `{"command":"wc beans"}`)), true: saying("Seven.")}[answered], true
		}))
		reminder := e2e.Fields{"type": "text", "text": "<system-reminder>\nToday is a day.\n</system-reminder>"}
		prompt := e2e.Fields{"type": "text", "text": "Count the beans.", "cache_control": e2e.Fields{"type": "ephemeral", "ttl": "1h"}}
		main := claudeCode("a1b", e2e.Fields{"tools": []any{tool("Bash"), tool("Read")}, "messages": []any{
			e2e.UserMessage([]any{reminder, prompt}), e2e.Fields{"role": "system", "content": "# Environment\nA directory."},
		}})
		title := claudeCode("c2d", e2e.Fields{
			"messages": []any{e2e.UserMessage([]any{e2e.Fields{"type": "text", "text": "<session>\nCount the beans.\n</session>"}})}, "tools": []any{},
			"thinking": e2e.Fields{"type": "disabled"}, "output_config": e2e.Fields{"format": e2e.Fields{"type": "json_schema", "schema": e2e.Fields{
				"type": "object", "properties": e2e.Fields{"title": e2e.Fields{"type": "string"}}, "required": []string{"title"}, "additionalProperties": false,
			}}},
		})
		var both sync.WaitGroup
		both.Go(func() {
			if m := s.Message(title); texts(m) != `{"title":"The beans"}` || m.StopReason != "end_turn" {
				t.Errorf("the title %+v", m)
			}
		})
		first := s.Message(main)
		both.Wait()
		if texts(first) != "<tool_use Bash>" || first.StopReason != "tool_use" {
			t.Fatalf("%+v", first)
		}
		delete(prompt, "cache_control") // it moves to the last block
		main["messages"] = append(main["messages"].([]any), first.Back(), e2e.UserMessage([]any{
			e2e.Fields{"type": "tool_result", "tool_use_id": first.Content[0].ID, "content": "7 beans", "cache_control": e2e.Fields{"type": "ephemeral", "ttl": "1h"}},
		}))
		if m := s.Message(main); texts(m) != "Seven." {
			t.Errorf("%+v", m)
		}
		keys := map[string]int{}
		for _, r := range s.Model.Requests() {
			keys[r.PromptCacheKey]++
			if strings.Contains(string(r.Body), "billing-header") {
				t.Errorf("the model was given %s", r.Body)
			}
		}
		if len(keys) != 2 { // of the title, and of the conversation that has gone on
			t.Errorf("requests by their key: %v", keys)
		}
	})
}

// TestLimits: the limits of a key in Anthropic's headers, in answers and in the refusal of one
// request too many, at which its clients do not try for an hour.
func TestLimits(t *testing.T) {
	s := e2e.NewSite(t, "api_keys_file "+e2e.NewKeyFile(t, map[string]string{"sk-a": "requests 2 1h\ntokens 100000 1h"}).Path)
	began := time.Now().Truncate(time.Second)
	for i, want := range []string{"1", "0", "0"} {
		response, text := s.PostMessage(e2e.MessageBody("say:a", e2e.Fields{"stream": i == 0}), http.Header{"X-Api-Key": {"sk-a"}})
		header := response.Header
		resets, err := time.Parse(time.RFC3339, header.Get("Anthropic-Ratelimit-Requests-Reset"))
		if in := resets.Sub(began); err != nil || in <= 0 || in > time.Hour*21/20+2*e2e.Deadline {
			t.Errorf("%d: %v, it resets in %s", i, err, in)
		}
		if header.Get("Anthropic-Ratelimit-Requests-Limit") != "2" || header.Get("Anthropic-Ratelimit-Requests-Remaining") != want || header.Get("Request-Id") == "" {
			t.Errorf("%d: %v", i, header)
		}
		for name := range header {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ratelimit") || strings.Contains(lower, "tokens") {
				t.Errorf("%d: the header %s", i, name)
			}
		}
		if refused := i == 2; refused != (response.StatusCode == http.StatusTooManyRequests) ||
			refused && (!strings.Contains(text, `"type":"rate_limit_error"`) || header.Get("X-Should-Retry") != "false" || header.Get("Retry-After") == "") {
			t.Errorf("%d: %s %v %s", i, response.Status, header, text)
		}
	}
}
