package conversations

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

// twoAndText is a prompt for a text, a block, a text, two equal blocks and a text.
var twoAndText = "verbatim:One. " + useTool("localSearch", "a") + " Two. " + useTool("localSearch", "b") + "\n" + useTool("localSearch", "b") + " Three."

// threeCalls is a prompt for a text and three structured calls, two of them equal.
const threeCalls = `say:One.; tool:localSearch {"query":"a"}; tool:localSearch {"query":"b"}; tool:localSearch {"query":"b"}`

// optionCase holds options and the answers to twoAndText and threeCalls.
type optionCase struct {
	options    string
	text       string // content of twoAndText; [a] stands for a block
	textCalls  []string
	calls      string // content of threeCalls
	callsCalls []string
	mode       string
}

var optionCases = []optionCase{
	{options: "", mode: e2e.ModeJSON, text: "One.  Two. ", textCalls: e2e.Searches("a", "b", "b"), calls: "One.", callsCalls: e2e.Searches("a", "b", "b")},
	{options: "output_mode obsidian-xml", text: "One. [a] Two. [b]\n[b]", textCalls: e2e.Searches("a", "b", "b"), calls: "One.[a][b][b]", callsCalls: e2e.Searches("a", "b", "b")},
	{options: "stop_after_tools off", mode: e2e.ModeXML, text: "One. [a] Two. [b]\n[b]", textCalls: e2e.Searches("a", "b", "b"), calls: "One.[a][b][b]", callsCalls: e2e.Searches("a", "b", "b")},
	{options: `tool_block_delimiter "--"`, mode: e2e.ModeXML, text: "One. [a] Two. [b]\n--[b]", textCalls: e2e.Searches("a", "b", "b"), calls: "One.[a]--[b]--[b]", callsCalls: e2e.Searches("a", "b", "b")},
}

// TestToolOptions checks some options, with reloads of one Caddy.
func TestToolOptions(t *testing.T) {
	s := e2e.NewSite(t, "")
	expand := strings.NewReplacer("[a]", useTool("localSearch", "a"), "[b]", useTool("localSearch", "b"))
	for _, c := range optionCases {
		t.Run(strings.ReplaceAll(c.options, "\n", ", ")+" "+c.mode, func(t *testing.T) {
			s := s.At(t)
			config := reload(s, c.options)
			for form, want := range map[string]struct {
				content string
				calls   []string
			}{twoAndText: {c.text, c.textCalls}, threeCalls: {c.calls, c.callsCalls}} {
				got := s.AskBoth(e2e.Question{Prompt: form, Mode: c.mode, Tools: true, Config: config})
				content := expand.Replace(want.content)
				e2e.CheckReply(t, got, &content, want.calls, "tool_calls")
			}
		})
	}
}

// TestToolMax checks that the client gets two of five calls and learns that there were
// more, and that the turn is interrupted.
func TestToolMax(t *testing.T) {
	s := e2e.NewSite(t, "tool_block_max 2")
	content := useTool("localSearch", "1") + "\n" + useTool("localSearch", "2")
	for mode, want := range map[string]*string{e2e.ModeJSON: nil, e2e.ModeXML: &content} {
		before := s.Model.Stats()
		got := s.Ask(e2e.Question{Prompt: `chunk=all; usetool:5 localSearch {"query":"%d"}; say:And so on; hang`, Mode: mode, Tools: true}, true)
		e2e.CheckReply(t, got, want, e2e.Searches("1", "2"), "tool_calls")
		if !got.Truncated || got.Counted != 2 {
			t.Errorf("%s: truncated %t, %d calls counted", mode, got.Truncated, got.Counted)
		}
		if err := s.Model.WaitClosed(e2e.Context(t), before.ClosedEarly+1); err != nil {
			t.Error("the turn was not interrupted:", err)
		}
	}
}

// TestToolGrace checks that the turn is interrupted a moment after a block, unless the
// model may finish.
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
	// A block that has begun is waited for, however long it takes.
	slow := e2e.Question{Prompt: "chunk=20; delay=120ms; verbatim:" + useTool("localSearch", "1") + "<use_tool>" + useTool("localSearch", "2")[len("<use_tool>"):], System: e2e.Taught}
	content := useTool("localSearch", "1") + useTool("localSearch", "2")
	e2e.CheckReply(t, s.Ask(slow, true), &content, e2e.Searches("1", "2"), "tool_calls")

	// With openai-json, an open block that does not grow ends like silence.
	open := "<use_tool>\n<name>localSearch</name>"
	stuck := e2e.Question{Prompt: "chunk=all; say:" + useTool("localSearch", "1") + open + "; hang", Tools: true, Mode: e2e.ModeJSON}
	content = open
	e2e.CheckReply(t, s.Ask(stuck, true), &content, e2e.Searches("1"), "tool_calls")

	patient := e2e.Question{Prompt: `delay=400ms; chunk=all; usetool:localSearch {"query":"1"}; say:Done.`, System: e2e.Taught}
	patient.Config = reload(s, "stop_after_tools off\nsuppress_tail_after_tools off")
	content = useTool("localSearch", "1") + "\n\nDone."
	e2e.CheckReply(t, s.Ask(patient, true), &content, e2e.Searches("1"), "tool_calls")
}

// TestToolFirst checks that with stop_after_tools first the answer has one call, whether
// there were more, and the usage: that of the model if it comes within the grace, or
// else an estimate, which is marked.
func TestToolFirst(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		grace, prompt        string
		truncated, estimated bool
	}{
		{"30s", `usage:100,20,30,4; usetool:2 localSearch {"query":"a"}`, true, false},
		// Both calls come at once, and then nothing, however long the grace is.
		{"100ms", `chunk=all; usetool:2 localSearch {"query":"a"}; hang`, true, true},
	} {
		config := reload(s, "stop_after_tools first "+c.grace+"\nsuppress_tail_after_tools off")
		for _, mode := range []string{e2e.ModeJSON, e2e.ModeXML} {
			t.Run(mode+" "+c.prompt, func(t *testing.T) {
				s := s.At(t)
				before := toolUsageOf(s)
				q := e2e.Question{Prompt: c.prompt, Tools: true, Mode: mode, Config: config}
				got := s.AskBoth(q)
				if len(got.Calls) != 1 || !strings.HasPrefix(got.Calls[0], `localSearch({"query":"a`) || got.Finish != "tool_calls" ||
					got.Truncated != c.truncated || strings.Contains(got.Content, "so on") {
					t.Errorf("%+v", got)
				}
				after := toolUsageOf(s)
				truncated := after.ToolCalls.Truncated - before.ToolCalls.Truncated
				if calls := after.ToolCalls.Total - before.ToolCalls.Total; calls != 2 || (truncated == 2) != c.truncated {
					t.Errorf("%d calls, %d turns truncated", calls, truncated)
				}
				_, body := s.Post(q.Body(false), q.Header())
				usage := gjson.Get(body, "usage")
				if usage.Get("estimated").Bool() != c.estimated || c.estimated && usage.Get("completion_tokens").Int() < 10 ||
					!c.estimated && usage.Get("total_tokens").Int() != 130 {
					t.Errorf("usage %s", usage)
				}
			})
		}
	}
}

// TestToolTwins checks that a block and a structured call with the same content are one
// call, and that the answer ends although Codex waits for the result of the second.
func TestToolTwins(t *testing.T) {
	s := e2e.NewSite(t, e2e.Patient)
	for _, prompt := range []string{
		`usetool:localSearch {"query":"a"}; tool:localSearch {"query":"a"}`,
		`tool:localSearch {"query":"a"}; usetool:localSearch {"query":"a"}`,
	} {
		q := e2e.Question{Prompt: prompt, Tools: true, Mode: e2e.ModeJSON}
		e2e.CheckReply(t, s.AskBoth(q), nil, e2e.Searches("a"), "tool_calls")
		q.Mode = e2e.ModeXML
		content := useTool("localSearch", "a")
		e2e.CheckReply(t, s.AskBoth(q), &content, e2e.Searches("a"), "tool_calls")
	}
	// Otherwise equal calls are separate.
	q := e2e.Question{Prompt: `usetool:2 localSearch {"query":"a"}; tool:localSearch {"query":"b"}`, Tools: true, Mode: e2e.ModeJSON}
	e2e.CheckReply(t, s.AskBoth(q), nil, e2e.Searches("a", "a", "b"), "tool_calls")
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

// reload loads other options and returns the name of the configuration. For a moment
// after a reload, the old configuration may still accept connections, and the kernel
// resets those that wait in its listener.
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
