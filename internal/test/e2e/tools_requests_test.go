package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestToolAuto checks the mode of requests without x-proxy-output-mode.
func TestToolAuto(t *testing.T) {
	s := newSite(t, "")
	prompt := `usetool:localSearch {"query":"a"}`
	user := map[string]any{"role": "user", "content": prompt}
	for name, c := range map[string]struct {
		q    question
		want string // mode; if empty, it is openai-json and the block is text
	}{
		"an ordinary client":                 {question{prompt: prompt}, ""},
		"a client with tools":                {question{prompt: prompt, tools: true}, modeJSON},
		"a prompt that teaches blocks":       {question{prompt: prompt, system: taught}, modeXML},
		"such a prompt beside tools":         {question{prompt: prompt, system: taught, tools: true}, modeJSON},
		"such a prompt and the other header": {question{prompt: prompt, system: taught, mode: modeJSON}, modeJSON},
		"tools and the other header":         {question{prompt: prompt, tools: true, mode: modeXML}, modeXML},
		"a prompt of Obsidian Copilot 3.1.1": {question{prompt: prompt, more: map[string]any{"messages": []any{
			map[string]any{"role": "assistant", "content": taught}, user,
		}}}, modeXML},
		"a developer's prompt": {question{prompt: prompt, more: map[string]any{"messages": []any{
			map[string]any{"role": "developer", "content": []any{map[string]any{"type": "text", "text": taught}}}, user,
		}}}, modeXML},
		"a user who speaks of blocks": {question{prompt: prompt, more: map[string]any{"messages": []any{
			map[string]any{"role": "user", "content": taught}, map[string]any{"role": "assistant", "content": "I see."}, user,
		}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			if c.q.more != nil {
				c.q.more["stream"] = true
				got := s.readReply(s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(c.q.body(true)), nil))
				checkAuto(t, got, c.want)
				return
			}
			checkAuto(t, s.askBoth(c.q), c.want)
		})
	}
}

func checkAuto(t *testing.T, got reply, want string) {
	t.Helper()
	block := useTool("localSearch", "a")
	switch want {
	case "":
		checkReply(t, got, &block, nil, "stop")
		want = modeJSON
	case modeXML:
		checkReply(t, got, &block, searches("a"), "tool_calls")
	default:
		checkReply(t, got, nil, searches("a"), "tool_calls")
	}
	if mode := got.header.Get("X-Proxy-Output-Mode"); mode != want {
		t.Errorf("the header says %q; want %q", mode, want)
	}
}

// TestToolHeaders checks the headers of answers, and an invalid mode.
func TestToolHeaders(t *testing.T) {
	s := newSite(t, "tool_block_max 1")
	for _, stream := range []bool{false, true} {
		q := question{prompt: `tool:2 localSearch {"query":"%d"}`, tools: true}
		header := http.Header{"X-Request-Id": {"req-2.12"}, "X-Proxy-Output-Mode": {modeXML}}
		response := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(q.body(stream)), header)
		text := s.read(response)
		want := map[string]string{
			"X-Request-Id": "req-2.12", "X-Proxy-Output-Mode": modeXML, "X-Codex-Stop-After-Tools-Mode": "burst",
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
		response, text := s.post(chatBody("say:ok", nil), http.Header{"X-Proxy-Output-Mode": {mode}})
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(text, "x-proxy-output-mode") {
			t.Errorf("%q: %s %s", mode, response.Status, text)
		}
		checkEnvelope(t, response, text, "")
	}
}

// TestToolText checks which texts are calls.
func TestToolText(t *testing.T) {
	s := newSite(t, "suppress_tail_after_tools off")
	block, other := useTool("localSearch", "a"), useTool("nobodysTool", "a")
	open, _, _ := strings.Cut(block, "</use_tool>")
	for name, c := range map[string]struct {
		mode, text string
		content    string
		calls      []string
	}{
		"in a code fence":                 {modeJSON, "So:\n```xml\n" + block + "\n```\nDone.", "So:\n```xml\n" + block + "\n```\nDone.", nil},
		"in a code fence, Obsidian":       {modeXML, "So:\n```xml\n" + block + "\n```\nDone.", "So:\n```xml\n" + block + "\n```\nDone.", searches("a")},
		"a name that nobody declared":     {modeJSON, "I like " + other + ".", "I like " + other + ".", nil},
		"such a name, Obsidian":           {modeXML, "I like " + other + ".", "I like " + other + ".", []string{`nobodysTool({"query":"a"})`}},
		"look-alikes":                     {modeXML, "<use_tools> <user> < use_tool> <USE_TOOL> a < b <", "<use_tools> <user> < use_tool> <USE_TOOL> a < b <", nil},
		"never closed":                    {modeXML, "See " + open, "See " + open, nil},
		"nested":                          {modeXML, open + block + " so", open + block + " so", searches("a")},
		"without a name":                  {modeXML, "<use_tool></use_tool>", "<use_tool></use_tool>", nil},
		"args, tolerated":                 {modeJSON, `Hm. <use_tool><name>localSearch</name><args>{"query":"</use_tool>"}</args></use_tool>`, "Hm. ", searches("</use_tool>")},
		"identical blocks are two calls":  {modeXML, block + block, block + block, searches("a", "a")},
		"attributes":                      {modeXML, strings.Replace(block, "<use_tool>", `<use_tool id="1">`, 1), strings.Replace(block, "<use_tool>", `<use_tool id="1">`, 1), searches("a")},
		"text on all sides":               {modeJSON, "a " + block + " b " + block + " c", "a  b  c", searches("a", "a")},
		"a lone < at the end of a delta":  {modeJSON, "1 <", "1 <", nil},
		"repeated text between two calls": {modeXML, block + "l l ll aa aa" + block, block + "l l ll aa aa" + block, searches("a", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			for _, chunk := range []string{"1", "5", "all"} {
				got := s.askBoth(question{prompt: "chunk=" + chunk + "; verbatim:" + c.text, mode: c.mode, tools: true})
				finish := "stop"
				if len(c.calls) > 0 {
					finish = "tool_calls"
				}
				checkReply(t, got, &c.content, c.calls, finish)
			}
		})
	}
}

// TestToolReasoning checks that a block in the reasoning is not a call.
func TestToolReasoning(t *testing.T) { overBoth(t, testToolReasoning) }

func testToolReasoning(t *testing.T) {
	s := newSite(t, "")
	block := useTool("localSearch", "a")
	for _, mode := range []string{modeJSON, modeXML} {
		got := s.askBoth(question{prompt: "chunk=3; reason:Shall I write " + block + "?; say:No.", mode: mode, tools: true})
		content := "No."
		checkReply(t, got, &content, nil, "stop")
		if !strings.Contains(got.reasoning, block) {
			t.Errorf("the reasoning is %q", got.reasoning)
		}
	}
}

// TestToolCut checks the finish reason of an incomplete answer.
func TestToolCut(t *testing.T) { overBoth(t, testToolCut) }

func testToolCut(t *testing.T) {
	s := newSite(t, "")
	block := useTool("localSearch", "a")
	for name, c := range map[string]struct {
		prompt, content, finish string
		calls                   []string
	}{
		"after a call":         {"say:" + block + "; incomplete:max_output_tokens", block, "tool_calls", searches("a")},
		"within the next call": {"say:" + block + "<use_tool><name>lo; incomplete:max_output_tokens", block + "<use_tool><name>lo", "length", searches("a")},
		"by the filter":        {"say:" + block + "<use_tool><name>lo; incomplete:content_filter", block + "<use_tool><name>lo", "content_filter", searches("a")},
		"within the first":     {"say:Hm. <use_tool><name>lo; incomplete:max_output_tokens", "Hm. <use_tool><name>lo", "length", nil},
	} {
		t.Run(name, func(t *testing.T) {
			checkReply(t, s.at(t).askBoth(question{prompt: c.prompt, system: taught}), &c.content, c.calls, c.finish)
		})
	}
}
