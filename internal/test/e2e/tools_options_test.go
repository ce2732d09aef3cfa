package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// twoAndText is a prompt for a text, a block, a text, two equal blocks and a text.
var twoAndText = "verbatim:One. " + useTool("localSearch", "a") + " Two. " + useTool("localSearch", "b") + "\n" + useTool("localSearch", "b") + " Three."

// threeCalls is a prompt for a text and three structured calls, two of them equal.
const threeCalls = `say:One.; tool:localSearch {"query":"a"}; tool:localSearch {"query":"b"}; tool:localSearch {"query":"b"}`

// optionCase holds options and the answers to twoAndText and threeCalls.
type optionCase struct {
	options     string
	text        string // content of twoAndText; [a] stands for a block
	textCalls   []string
	calls       string // content of threeCalls
	callsCalls  []string
	truncated   bool
	mode        string
	textFinish  string // empty: tool_calls
	callsFinish string // empty: tool_calls
}

var optionCases = []optionCase{
	{options: "", mode: modeJSON, text: "One.  Two. ", textCalls: searches("a", "b", "b"), calls: "One.", callsCalls: searches("a", "b", "b")},
	{options: "output_mode obsidian-xml", text: "One. [a] Two. [b]\n[b]", textCalls: searches("a", "b", "b"), calls: "One.[a][b][b]", callsCalls: searches("a", "b", "b")},
	{options: "output_mode obsidian-xml\nstop_after_tools first", text: "One. [a]", textCalls: searches("a"), calls: "One.[a]", callsCalls: searches("a"), truncated: true},
	{options: "stop_after_tools first\ntool_block_max 1", mode: modeJSON, text: "One. ", textCalls: searches("a"), calls: "One.", callsCalls: searches("a"), truncated: true},
	{options: "stop_after_tools off", mode: modeXML, text: "One. [a] Two. [b]\n[b]", textCalls: searches("a", "b", "b"), calls: "One.[a][b][b]", callsCalls: searches("a", "b", "b")},
	{options: "suppress_tail_after_tools off", mode: modeXML, text: "One. [a] Two. [b]\n[b] Three.", textCalls: searches("a", "b", "b"), calls: "One.[a][b][b]", callsCalls: searches("a", "b", "b")},
	{options: "suppress_tail_after_tools off", mode: modeJSON, text: "One.  Two.  Three.", textCalls: searches("a", "b", "b"), calls: "One.", callsCalls: searches("a", "b", "b")},
	{options: "textual_tools off\nsuppress_tail_after_tools off", mode: modeXML, text: "One. [a] Two. [b]\n[b] Three.", textFinish: "stop", calls: "One.[a][b][b]", callsCalls: searches("a", "b", "b")},
	{options: "textual_tools on", mode: modeJSON, text: "One.  Two. ", textCalls: searches("a", "b", "b"), calls: "One.", callsCalls: searches("a", "b", "b")},
	{options: "tool_block_max 2", mode: modeXML, text: "One. [a] Two. [b]", textCalls: searches("a", "b"), calls: "One.[a][b]", callsCalls: searches("a", "b"), truncated: true},
	{options: "tool_block_dedup on", mode: modeXML, text: "One. [a] Two. [b]", textCalls: searches("a", "b"), calls: "One.[a][b]", callsCalls: searches("a", "b")},
	{options: `tool_block_delimiter "--"`, mode: modeXML, text: "One. [a] Two. [b]\n--[b]", textCalls: searches("a", "b", "b"), calls: "One.[a]--[b]--[b]", callsCalls: searches("a", "b", "b")},
	{options: "parallel_tool_calls off", mode: modeXML, text: "One. [a]", textCalls: searches("a"), calls: "One.[a]", callsCalls: searches("a"), truncated: true},
}

// TestToolOptions checks every option, with reloads of one Caddy.
func TestToolOptions(t *testing.T) {
	s := newSite(t, "")
	expand := strings.NewReplacer("[a]", useTool("localSearch", "a"), "[b]", useTool("localSearch", "b"))
	for _, c := range optionCases {
		t.Run(strings.ReplaceAll(c.options, "\n", ", ")+" "+c.mode, func(t *testing.T) {
			s := s.at(t)
			config := s.reload(c.options)
			for form, want := range map[string]struct {
				content, finish string
				calls           []string
			}{twoAndText: {c.text, c.textFinish, c.textCalls}, threeCalls: {c.calls, c.callsFinish, c.callsCalls}} {
				got := s.askBoth(question{prompt: form, mode: c.mode, tools: true, config: config})
				content := expand.Replace(want.content)
				if want.finish == "" {
					want.finish = "tool_calls"
				}
				checkReply(t, got, &content, want.calls, want.finish)
				if got.truncated != c.truncated {
					t.Errorf("truncated: %t", got.truncated)
				}
			}
		})
	}
}

// TestToolEscaping checks both values of xml_escape for structured calls.
func TestToolEscaping(t *testing.T) {
	s := newSite(t, "output_mode obsidian-xml")
	q := question{prompt: `tool:localSearch {"query":"R&D <b>"}`, tools: true}
	for options, value := range map[string]string{"xml_escape literal": "R&D <b>", "xml_escape entities": "R&amp;D &lt;b&gt;"} {
		q.config = s.reload("output_mode obsidian-xml\n" + options)
		content := useTool("localSearch", value)
		checkReply(t, s.askBoth(q), &content, searches("R&D <b>"), "tool_calls")
	}
}

// TestToolMax checks that the client gets two of five calls and learns that there were
// more, and that the turn is interrupted.
func TestToolMax(t *testing.T) {
	s := newSite(t, "tool_block_max 2")
	for _, form := range []string{"tool", "usetool"} {
		for _, mode := range []string{modeJSON, modeXML} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %t", form, mode, stream), func(t *testing.T) {
					s := s.at(t)
					before := s.model.Stats()
					got := s.ask(question{
						prompt: form + `:5 localSearch {"query":"%d"}; say:And so on; hang`, mode: mode, tools: true,
					}, stream)
					content := useTool("localSearch", "1") + useTool("localSearch", "2")
					if form == "usetool" {
						content = useTool("localSearch", "1") + "\n" + useTool("localSearch", "2")
					}
					want := &content
					if mode == modeJSON {
						want = nil
					}
					checkReply(t, got, want, searches("1", "2"), "tool_calls")
					if !got.truncated || got.counted != 2 {
						t.Errorf("truncated %t, %d calls counted", got.truncated, got.counted)
					}
					if err := s.model.WaitClosed(testContext(t), before.ClosedEarly+1); err != nil {
						t.Error("the turn was not interrupted:", err)
					}
				})
			}
		}
	}
}

// TestToolGrace checks that the turn is interrupted a moment after a block, unless the
// model may finish.
func TestToolGrace(t *testing.T) {
	s := newSite(t, "stop_after_tools burst 50ms")
	for _, stream := range []bool{false, true} {
		before := s.model.Stats()
		got := s.ask(question{prompt: `usetool:2 localSearch {"query":"%d"}; hang`, system: taught}, stream)
		content := useTool("localSearch", "1") + "\n" + useTool("localSearch", "2")
		checkReply(t, got, &content, searches("1", "2"), "tool_calls")
		if err := s.model.WaitClosed(testContext(t), before.ClosedEarly+1); err != nil {
			t.Error("the turn was not interrupted:", err)
		}
	}
	// A block that has begun is waited for, however long it takes.
	slow := question{prompt: "chunk=20; delay=120ms; verbatim:" + useTool("localSearch", "1") + "<use_tool>" + useTool("localSearch", "2")[len("<use_tool>"):], system: taught}
	content := useTool("localSearch", "1") + useTool("localSearch", "2")
	checkReply(t, s.ask(slow, true), &content, searches("1", "2"), "tool_calls")

	patient := question{prompt: `delay=400ms; chunk=all; usetool:localSearch {"query":"1"}; say:Done.`, system: taught}
	patient.config = s.reload("stop_after_tools off\nsuppress_tail_after_tools off")
	content = useTool("localSearch", "1") + "\n\nDone."
	checkReply(t, s.ask(patient, true), &content, searches("1"), "tool_calls")
}

// TestToolFirst checks that with stop_after_tools first the answer has one call, whether
// there were more, and the usage: that of the model if it comes within the grace, or
// else an estimate, which is marked.
func TestToolFirst(t *testing.T) {
	s := newSite(t, "stop_after_tools first 2s\nsuppress_tail_after_tools off")
	for _, mode := range []string{modeJSON, modeXML} {
		for prompt, want := range map[string]struct{ truncated, estimated bool }{
			`usage:100,20,30,4; usetool:localSearch {"query":"a"}; say: And so on.`: {false, false},
			`usage:100,20,30,4; usetool:2 localSearch {"query":"a"}`:                {true, false},
			`usage:100,20,30,4; tool:localSearch {"query":"a"}`:                     {false, false},
			`usage:100,20,30,4; tool:3 localSearch {"query":"a%d"}`:                 {true, false},
			`usetool:2 localSearch {"query":"a"}; hang`:                             {true, true},
		} {
			before := s.toolUsage()
			q := question{prompt: prompt, tools: true, mode: mode}
			got := s.askBoth(q)
			if len(got.calls) != 1 || !strings.HasPrefix(got.calls[0], `localSearch({"query":"a`) || got.finish != "tool_calls" ||
				got.truncated != want.truncated || strings.Contains(got.content, "so on") {
				t.Errorf("%s, %s: %+v", mode, prompt, got)
			}
			after := s.toolUsage()
			truncated := after.ToolCalls.Truncated - before.ToolCalls.Truncated
			if calls := after.ToolCalls.Total - before.ToolCalls.Total; calls != 2 || (truncated == 2) != want.truncated {
				t.Errorf("%s, %s: %d calls, %d turns truncated", mode, prompt, calls, truncated)
			}
			_, body := s.post(q.body(false), q.header())
			usage := gjson.Get(body, "usage")
			if usage.Get("estimated").Bool() != want.estimated || want.estimated && usage.Get("completion_tokens").Int() < 10 ||
				!want.estimated && usage.Get("total_tokens").Int() != 130 {
				t.Errorf("%s, %s: usage %s", mode, prompt, usage)
			}
		}
	}
	// Without a grace it ends at once, and a response says so as well.
	s.load(s.caddyfile("stop_after_tools first 0"))
	waitFor(t, "the new configuration", func() bool {
		r := s.respond(asks(`usetool:localSearch {"query":"a"}; hang`, fields{"tools": []fields{functionTool("localSearch")}}), nil)
		return len(r.calls()) == 1
	})
}

// TestToolTwins checks that a block and a structured call with the same content are one
// call, and that the answer ends although Codex waits for the result of the second.
func TestToolTwins(t *testing.T) {
	s := newSite(t, "")
	for _, options := range []string{"", "stop_after_tools off", "stop_after_tools first"} {
		config := s.reload(options)
		for _, prompt := range []string{
			`usetool:localSearch {"query":"a"}; tool:localSearch {"query":"a"}`,
			`tool:localSearch {"query":"a"}; usetool:localSearch {"query":"a"}`,
		} {
			q := question{prompt: prompt, tools: true, mode: modeJSON, config: config}
			checkReply(t, s.askBoth(q), nil, searches("a"), "tool_calls")
			q.mode = modeXML
			content := useTool("localSearch", "a")
			checkReply(t, s.askBoth(q), &content, searches("a"), "tool_calls")
		}
	}
	// Otherwise equal calls are separate.
	q := question{prompt: `usetool:2 localSearch {"query":"a"}; tool:localSearch {"query":"b"}`, tools: true, mode: modeJSON}
	q.config = s.reload("")
	checkReply(t, s.askBoth(q), nil, searches("a", "a", "b"), "tool_calls")
}

// TestToolReload checks that changed options apply to later requests only.
func TestToolReload(t *testing.T) {
	s := newSite(t, "output_mode obsidian-xml\nstop_after_tools off")
	const streams = 6
	slow := question{prompt: `chunk=5; delay=30ms; usetool:4 localSearch {"query":"Zoë %d"}`, system: taught}
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			got := s.ask(slow, true)
			checkBurst(t, got, 4, modeXML)
			if mode := got.header.Get("X-Codex-Stop-After-Tools-Mode"); mode != "off" {
				t.Errorf("an old stream says %q", mode)
			}
		})
	}
	if _, err := s.model.Wait(testContext(t), func(now scriptedmodel.Stats) bool { return now.Open == streams }); err != nil {
		t.Fatal(err)
	}
	s.reload("output_mode openai-json\nstop_after_tools first")
	quick := question{prompt: `usetool:4 localSearch {"query":"%d"}`, system: taught}
	quick.config = s.reload("output_mode openai-json\nstop_after_tools burst\ntool_block_max 3")
	got := s.askBoth(quick)
	checkReply(t, got, nil, searches("1", "2", "3"), "tool_calls")
	if !got.truncated {
		t.Error("the new options do not hold")
	}
	wg.Wait()
}
