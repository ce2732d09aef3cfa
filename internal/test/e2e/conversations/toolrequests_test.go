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
	prompt := `usetool:localSearch {"query":"a"}`
	user := map[string]any{"role": "user", "content": prompt}
	for name, c := range map[string]struct {
		q    e2e.Question
		want string // mode; if empty, it is openai-json and the block is text
	}{
		"an ordinary client":                 {e2e.Question{Prompt: prompt}, ""},
		"a client with tools":                {e2e.Question{Prompt: prompt, Tools: true}, e2e.ModeJSON},
		"a prompt that teaches blocks":       {e2e.Question{Prompt: prompt, System: e2e.Taught}, e2e.ModeXML},
		"such a prompt beside tools":         {e2e.Question{Prompt: prompt, System: e2e.Taught, Tools: true}, e2e.ModeJSON},
		"such a prompt and the other header": {e2e.Question{Prompt: prompt, System: e2e.Taught, Mode: e2e.ModeJSON}, e2e.ModeJSON},
		"tools and the other header":         {e2e.Question{Prompt: prompt, Tools: true, Mode: e2e.ModeXML}, e2e.ModeXML},
		"a prompt of Obsidian Copilot 3.1.1": {e2e.Question{Prompt: prompt, More: map[string]any{"messages": []any{
			map[string]any{"role": "assistant", "content": e2e.Taught}, user,
		}}}, e2e.ModeXML},
		"a developer's prompt": {e2e.Question{Prompt: prompt, More: map[string]any{"messages": []any{
			map[string]any{"role": "developer", "content": []any{map[string]any{"type": "text", "text": e2e.Taught}}}, user,
		}}}, e2e.ModeXML},
		"a user who speaks of blocks": {e2e.Question{Prompt: prompt, More: map[string]any{"messages": []any{
			map[string]any{"role": "user", "content": e2e.Taught}, map[string]any{"role": "assistant", "content": "I see."}, user,
		}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			if c.q.More != nil {
				c.q.More["stream"] = true
				got := s.ReadReply(s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(c.q.Body(true)), nil))
				checkAuto(t, got, c.want)
				return
			}
			checkAuto(t, s.AskBoth(c.q), c.want)
		})
	}
}

func checkAuto(t *testing.T, got e2e.Reply, want string) {
	t.Helper()
	block := useTool("localSearch", "a")
	switch want {
	case "":
		e2e.CheckReply(t, got, &block, nil, "stop")
		want = e2e.ModeJSON
	case e2e.ModeXML:
		e2e.CheckReply(t, got, &block, e2e.Searches("a"), "tool_calls")
	default:
		e2e.CheckReply(t, got, nil, e2e.Searches("a"), "tool_calls")
	}
	if mode := got.Header.Get("X-Proxy-Output-Mode"); mode != want {
		t.Errorf("the header says %q; want %q", mode, want)
	}
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

// TestToolText checks which texts are calls.
func TestToolText(t *testing.T) {
	s := e2e.NewSite(t, "suppress_tail_after_tools off\n"+e2e.Patient)
	block, other := useTool("localSearch", "a"), useTool("nobodysTool", "a")
	open, _, _ := strings.Cut(block, "</use_tool>")
	for name, c := range map[string]struct {
		mode, text string
		content    string
		calls      []string
	}{
		"in a code fence":                 {e2e.ModeJSON, "So:\n```xml\n" + block + "\n```\nDone.", "So:\n```xml\n" + block + "\n```\nDone.", nil},
		"in a code fence, Obsidian":       {e2e.ModeXML, "So:\n```xml\n" + block + "\n```\nDone.", "So:\n```xml\n" + block + "\n```\nDone.", e2e.Searches("a")},
		"a name that nobody declared":     {e2e.ModeJSON, "I like " + other + ".", "I like " + other + ".", nil},
		"such a name, Obsidian":           {e2e.ModeXML, "I like " + other + ".", "I like " + other + ".", []string{`nobodysTool({"query":"a"})`}},
		"look-alikes":                     {e2e.ModeXML, "<use_tools> <user> < use_tool> <USE_TOOL> a < b <", "<use_tools> <user> < use_tool> <USE_TOOL> a < b <", nil},
		"never closed":                    {e2e.ModeXML, "See " + open, "See " + open, nil},
		"nested":                          {e2e.ModeXML, open + block + " so", open + block + " so", e2e.Searches("a")},
		"without a name":                  {e2e.ModeXML, "<use_tool></use_tool>", "<use_tool></use_tool>", nil},
		"args, tolerated":                 {e2e.ModeJSON, `Hm. <use_tool><name>localSearch</name><args>{"query":"</use_tool>"}</args></use_tool>`, "Hm. ", e2e.Searches("</use_tool>")},
		"identical blocks are two calls":  {e2e.ModeXML, block + block, block + block, e2e.Searches("a", "a")},
		"attributes":                      {e2e.ModeXML, strings.Replace(block, "<use_tool>", `<use_tool id="1">`, 1), block, e2e.Searches("a")},
		"text on all sides":               {e2e.ModeJSON, "a " + block + " b " + block + " c", "a  b  c", e2e.Searches("a", "a")},
		"a lone < at the end of a delta":  {e2e.ModeJSON, "1 <", "1 <", nil},
		"repeated text between two calls": {e2e.ModeXML, block + "l l ll aa aa" + block, block + "l l ll aa aa" + block, e2e.Searches("a", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			for _, chunk := range []string{"1", "all"} {
				got := s.AskBoth(e2e.Question{Prompt: "chunk=" + chunk + "; verbatim:" + c.text, Mode: c.mode, Tools: true})
				finish := "stop"
				if len(c.calls) > 0 {
					finish = "tool_calls"
				}
				e2e.CheckReply(t, got, &c.content, c.calls, finish)
			}
		})
	}
}

// TestToolReasoning checks that a block in the reasoning is not a call.
func TestToolReasoning(t *testing.T) { e2e.OverBoth(t, testToolReasoning) }

func testToolReasoning(t *testing.T) {
	s := e2e.NewSite(t, "")
	block := useTool("localSearch", "a")
	for _, mode := range []string{e2e.ModeJSON, e2e.ModeXML} {
		got := s.AskBoth(e2e.Question{Prompt: "chunk=3; reason:Shall I write " + block + "?; say:No.", Mode: mode, Tools: true})
		content := "No."
		e2e.CheckReply(t, got, &content, nil, "stop")
		if !strings.Contains(got.Reasoning, block) {
			t.Errorf("the reasoning is %q", got.Reasoning)
		}
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
		"by the filter":        {"say:" + block + "<use_tool><name>lo; incomplete:content_filter", block + "<use_tool><name>lo", "content_filter", e2e.Searches("a")},
		"within the first":     {"say:Hm. <use_tool><name>lo; incomplete:max_output_tokens", "Hm. <use_tool><name>lo", "length", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e2e.CheckReply(t, s.At(t).AskBoth(e2e.Question{Prompt: c.prompt, System: e2e.Taught}), &c.content, c.calls, c.finish)
		})
	}
}
