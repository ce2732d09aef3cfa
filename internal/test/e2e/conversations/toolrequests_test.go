package conversations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestToolAuto checks the mode of requests without x-proxy-output-mode.
func TestToolAuto(t *testing.T) {
	s := e2e.NewSite(t, "")
	q, block := e2e.Question{Prompt: `usetool:localSearch {"query":"a"}`}, useTool("localSearch", "a")
	check := func(mode string, content *string, calls []string, finish string) {
		t.Helper()
		got := s.AskBoth(q)
		e2e.CheckReply(t, got, content, calls, finish)
		if got := got.Header.Get("X-Proxy-Output-Mode"); got != mode {
			t.Errorf("the header says %q; want %q", got, mode)
		}
	}
	check(e2e.ModeJSON, &block, nil, "stop") // an ordinary client: the block is a text
	q.System = e2e.Taught
	check(e2e.ModeXML, &block, e2e.Searches("a"), "tool_calls")
	q.System, q.Tools = "", true
	check(e2e.ModeJSON, nil, e2e.Searches("a"), "tool_calls")
}

// TestToolHeaders checks the headers of answers, and an invalid mode.
func TestToolHeaders(t *testing.T) {
	s := e2e.NewSite(t, "tool_block_max 1")
	for _, stream := range []bool{false, true} {
		q := e2e.Question{Prompt: `tool:2 localSearch {"query":"%d"}`, Tools: true}
		header := http.Header{"X-Request-Id": {"req-2.12"}, "X-Proxy-Output-Mode": {e2e.ModeXML}}
		response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(q.Body(stream)), header)
		text := s.Read(response)
		want := map[string]string{
			"X-Request-Id": "req-2.12", "X-Proxy-Output-Mode": e2e.ModeXML, "X-Codex-Stop-After-Tools-Mode": "burst",
			"X-Codex-Tool-Call-Count": "1", "X-Codex-Tool-Call-Truncated": "true",
		}
		if stream {
			want["X-Codex-Tool-Call-Count"], want["X-Codex-Tool-Call-Truncated"] = "", ""
			if !strings.HasSuffix(text, "\n\n: tool_calls=1 truncated=true\n\ndata: [DONE]\n\n") {
				t.Errorf("the end is %q", text)
			}
		}
		for name, value := range want {
			if got := response.Header.Get(name); got != value {
				t.Errorf("stream %t: %s is %q, not %q", stream, name, got, value)
			}
		}
	}
	for _, mode := range []string{"xml", "auto", "Obsidian-XML", "obsidian-xml, openai-json"} {
		response, text := s.Post(e2e.ChatBody("say:ok", nil), http.Header{"X-Proxy-Output-Mode": {mode}})
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(text, "x-proxy-output-mode") {
			t.Errorf("%q: %s %s", mode, response.Status, text)
		}
		e2e.CheckEnvelope(t, response, text, "")
	}
}

// TestToolCut checks the finish reason of an incomplete answer.
func TestToolCut(t *testing.T) { e2e.OverBoth(t, testToolCut) }

func testToolCut(t *testing.T) {
	s := e2e.NewSite(t, e2e.Patient)
	block := useTool("localSearch", "a")
	for name, c := range map[string]struct {
		prompt, content, finish string
		calls                   []string
	}{
		"after a call":         {"say:" + block + "; incomplete:max_output_tokens", block, "tool_calls", e2e.Searches("a")},
		"within the next call": {"say:" + block + "<use_tool><name>lo; incomplete:max_output_tokens", block + "<use_tool><name>lo", "length", e2e.Searches("a")},
	} {
		t.Run(name, func(t *testing.T) {
			e2e.CheckReply(t, s.At(t).AskBoth(e2e.Question{Prompt: c.prompt, System: e2e.Taught}), &c.content, c.calls, c.finish)
		})
	}
}
