package conversations

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

// TestToolGrace: a turn is interrupted a moment after a block. TestGrace of internal/turn has all moments.
func TestToolGrace(t *testing.T) {
	s := e2e.NewSite(t, "stop_after_tools burst 50ms")
	for _, stream := range []bool{false, true} {
		before := s.Model.Stats()
		// Both blocks come at once: a busy machine may take longer than the grace between two pieces.
		got := s.Ask(e2e.Question{Prompt: `chunk=all; usetool:2 localSearch {"query":"%d"}; hang`, System: e2e.Taught}, stream)
		content := useTool("localSearch", "1") + "\n" + useTool("localSearch", "2")
		e2e.CheckReply(t, got, &content, e2e.Searches("1", "2"), "tool_calls")
		if err := s.Model.WaitClosed(e2e.Context(t), before.ClosedEarly+1); err != nil {
			t.Error("the turn was not interrupted:", err)
		}
	}
}

// TestToolReload checks that changed options apply to later requests only.
func TestToolReload(t *testing.T) {
	s := e2e.NewSite(t, "output_mode obsidian-xml\nstop_after_tools off")
	const streams = 6
	slow := e2e.Question{Prompt: `chunk=5; delay=30ms; usetool:4 localSearch {"query":"Zoë %d"}`, System: e2e.Taught}
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			got := s.Ask(slow, true)
			checkBurst(t, got, 4, e2e.ModeXML)
			if mode := got.Header.Get("X-Codex-Stop-After-Tools-Mode"); mode != "off" {
				t.Errorf("an old stream says %q", mode)
			}
		})
	}
	if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == streams }); err != nil {
		t.Fatal(err)
	}
	reload(s, "output_mode openai-json\nstop_after_tools first")
	quick := e2e.Question{Prompt: `usetool:4 localSearch {"query":"%d"}`, System: e2e.Taught}
	quick.Config = reload(s, "output_mode openai-json\nstop_after_tools burst 30s\ntool_block_max 3")
	got := s.AskBoth(quick)
	e2e.CheckReply(t, got, nil, e2e.Searches("1", "2", "3"), "tool_calls")
	if !got.Truncated {
		t.Error("the new options do not hold")
	}
	wg.Wait()
}

// reload loads other options and returns the configuration's name. For a moment, the old one may
// accept connections, and the kernel resets those in its listener.
func reload(s *e2e.Site, options string) string {
	s.T.Helper()
	if !strings.Contains(options, "stop_after_tools") {
		options += "\n" + e2e.Patient
	}
	name := rand.Text()
	s.Load(s.Wrap("header " + e2e.LoadedHeader + " " + name + "\ncodex {\n" + s.AppServer() + "\n" + options + "\n}"))
	return name
}

// useTool returns a block as the scripted model writes it.
func useTool(name, query string) string {
	return "<use_tool>\n<name>" + name + "</name>\n<query>" + query + "</query>\n</use_tool>"
}

func init() {
	caddy.RegisterModule(HermesPattern{})
}

// HermesPattern is a guest module for <tool_call> blocks.
type HermesPattern struct{ toolcall.Pattern }

// CaddyModule returns the Caddy module information.
func (HermesPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.hermes", New: func() caddy.Module { return new(HermesPattern) }}
}

// asToolCall returns a call of localSearch as a <tool_call> block.
func asToolCall(query string) string {
	return "<tool_call>\n{\"name\": \"localSearch\", \"arguments\": {\"query\":\"" + query + "\"}}\n</tool_call>"
}

// TestToolPatterns checks calls in another textual form, which a guest module reads, in both modes,
// streamed and not. What else becomes of them is in TestPatterns of internal/turn.
func TestToolPatterns(t *testing.T) {
	s := e2e.NewSite(t, "textual_pattern hermes")
	s.Load(s.WithMetrics("textual_pattern hermes\n" + e2e.Patient))
	text := "Hm. " + asToolCall("a") + " and " + useTool("localSearch", "b") + " " + asToolCall("c") + " That was all."
	inXML := "Hm. " + useTool("localSearch", "a") + " and " + useTool("localSearch", "b") + " " + useTool("localSearch", "c")
	inJSON := "Hm.  and "
	for mode, content := range map[string]*string{e2e.ModeJSON: &inJSON, e2e.ModeXML: &inXML} {
		const flushed = "tool_buffer_metrics.tool_buffer_flushed"
		before := toolCounts(s)[flushed]
		q := e2e.Question{Prompt: "chunk=8; verbatim:" + text, Tools: true, Mode: mode}
		e2e.CheckReply(t, s.AskBoth(q), content, e2e.Searches("a", "b", "c"), "tool_calls")
		if n := toolCounts(s)[flushed] - before; n != 6 {
			t.Errorf("%s: %d blocks counted", mode, n)
		}
	}
	// Without the option they are text.
	q := e2e.Question{Prompt: "verbatim:" + asToolCall("a"), Tools: true, Mode: e2e.ModeJSON, Config: reload(s, "")}
	content := asToolCall("a")
	e2e.CheckReply(t, s.AskBoth(q), &content, nil, "stop")
}
