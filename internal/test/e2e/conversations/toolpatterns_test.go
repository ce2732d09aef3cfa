package conversations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

func init() {
	caddy.RegisterModule(SearchPattern{})
	caddy.RegisterModule(HermesPattern{})
}

// HermesPattern is a guest module for <tool_call> blocks.
type HermesPattern struct{ toolcall.Pattern }

// CaddyModule returns the Caddy module information.
func (HermesPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.hermes", New: func() caddy.Module { return new(HermesPattern) }}
}

// SearchPattern is a guest module for calls of localSearch as search(QUERY).
type SearchPattern struct{}

// CaddyModule returns the Caddy module information.
func (SearchPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.search", New: func() caddy.Module { return new(SearchPattern) }}
}

// UnmarshalCaddyfile parses the name of the pattern.
func (*SearchPattern) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

func (*SearchPattern) Opener() string { return "search(" }

func (*SearchPattern) Begin() aggregator.BlockReader { return untilBracket{} }

func (*SearchPattern) Parse(block string) (name, arguments string, err error) {
	return "localSearch", fmt.Sprintf(`{"query":%q}`, block[len("search("):len(block)-1]), nil
}

// untilBracket ends a block with a closing bracket.
type untilBracket struct{}

func (untilBracket) Next(b byte) aggregator.BlockState {
	if b == ')' {
		return aggregator.BlockComplete
	}
	return aggregator.BlockOpen
}

// asToolCall returns a call of localSearch as a <tool_call> block.
func asToolCall(query string) string {
	return "<tool_call>\n{\"name\": \"localSearch\", \"arguments\": {\"query\":\"" + query + "\"}}\n</tool_call>"
}

// TestToolPatterns checks calls in other textual forms, which guest modules read,
// in both modes, streamed and not. The text after them is dropped, and they are counted.
func TestToolPatterns(t *testing.T) {
	s := e2e.NewSite(t, "textual_pattern hermes\ntextual_pattern search")
	s.Load(s.WithMetrics("textual_pattern hermes\ntextual_pattern search\n" + e2e.Patient))
	text := "Hm. " + asToolCall("a") + " and " + useTool("localSearch", "b") + " search(c)\n" + asToolCall("</tool_call>") + " That was all."
	inXML := "Hm. " + useTool("localSearch", "a") + " and " + useTool("localSearch", "b") + " " + useTool("localSearch", "c") + "\n" + useTool("localSearch", "</tool_call>")
	inJSON := "Hm.  and "
	for _, size := range []string{"1", "8", "all"} {
		q := e2e.Question{Prompt: "chunk=" + size + "; verbatim:" + text, Tools: true}
		for mode, content := range map[string]*string{e2e.ModeJSON: &inJSON, e2e.ModeXML: &inXML} {
			q.Mode = mode
			before := toolUsageOf(s)
			e2e.CheckReply(t, s.AskBoth(q), content, e2e.Searches("a", "b", "c", "</tool_call>"), "tool_calls")
			after := toolUsageOf(s)
			if n := after.Buffers.Flushed - before.Buffers.Flushed; n != 8 || after.ToolCalls.Total-before.ToolCalls.Total != 8 {
				t.Errorf("%s in pieces of %s: %d blocks counted", mode, size, n)
			}
		}
	}
	// What is not a call stays text, and is counted with the reason.
	before := toolUsageOf(s)
	q := e2e.Question{Prompt: `verbatim:The <tool_call> tag, <tool_call>{"name":"other"}</tool_call>, <tool_call>{"name":"localSearch"`, Tools: true, Mode: e2e.ModeJSON}
	content := strings.TrimPrefix(q.Prompt, "verbatim:")
	e2e.CheckReply(t, s.AskBoth(q), &content, nil, "stop")
	reasons := map[string]int{}
	for reason, n := range toolUsageOf(s).Buffers.ByReason {
		if n -= before.Buffers.ByReason[reason]; n > 0 {
			reasons[reason] = n
		}
	}
	if fmt.Sprint(reasons) != "map[malformed:2 unclosed:2 undeclared:2]" {
		t.Errorf("aborted: %v", reasons)
	}
	// Without the option they are text.
	q = e2e.Question{Prompt: "verbatim:" + asToolCall("a"), Tools: true, Mode: e2e.ModeJSON, Config: reload(s, "")}
	content = asToolCall("a")
	e2e.CheckReply(t, s.AskBoth(q), &content, nil, "stop")
}
