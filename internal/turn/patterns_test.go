package turn

import (
	"maps"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

// inForm is a call of find as a <tool_call> block.
func inForm(q string) string {
	return `<tool_call>{"name":"find","arguments":{"q":"` + q + `"}}</tool_call>`
}

// TestPatterns: calls in other textual forms are calls like those in <use_tool>
// blocks: in the stream, for the tail, for the end of the turn and for the counts. In
// ModeXML they become <use_tool> blocks, since clients read no others.
func TestPatterns(t *testing.T) {
	open := `<tool_call>{"name":"find"`
	for name, c := range map[string]struct {
		tools     ToolOptions
		text      string
		json, xml string
		started   int
		aborted   map[usetool.AbortReason]int
	}{
		"two and a tail": {ToolOptions{}, "Hm " + inForm("1") + "\n" + inForm("2") + " bye",
			"Hm {0:1}{1:2}|tool_calls", "Hm «(1)»{0:1}\n«(2)»{1:2}|tool_calls", 2, nil},
		"two, and the tail is kept": {ToolOptions{SuppressTailAfterTools: keepTail}, inForm("1") + inForm("2") + " bye",
			"{0:1}{1:2} bye|tool_calls", "«(1)»{0:1}«(2)»{1:2} bye|tool_calls", 2, nil},
		"beside <use_tool>": {ToolOptions{}, block("1") + inForm("2") + block("3"),
			"{0:1}{1:2}{2:3}|tool_calls", "«[1]»{0:1}«(2)»{1:2}«[3]»{2:3}|tool_calls", 3, nil},
		"first": {ToolOptions{StopAfterTools: StopFirst}, "Hm " + inForm("1") + inForm("2"),
			"Hm {0:1}|tool_calls", "Hm «(1)»{0:1}|tool_calls", 2, nil},
		"dedup": {ToolOptions{ToolBlockDedup: true}, inForm("1") + block("1") + inForm("1"),
			"{0:1}|tool_calls", "«(1)»{0:1}|tool_calls", 3, nil},
		"a delimiter": {ToolOptions{ToolBlockDelimiter: "--"}, inForm("1") + inForm("2"),
			"{0:1}{1:2}|tool_calls", "«(1)»{0:1}--«(2)»{1:2}|tool_calls", 2, nil},
		"unclosed behind a call": {ToolOptions{}, inForm("1") + " so " + open,
			"{0:1} so " + open + "|tool_calls", "«(1)»{0:1} so " + open + "|tool_calls", 2, map[usetool.AbortReason]int{usetool.AbortUnclosed: 1}},
		"unclosed before one that is made": {ToolOptions{}, open + "}" + inForm("1"),
			open + "}{0:1}|tool_calls", open + "}«(1)»{0:1}|tool_calls", 2, map[usetool.AbortReason]int{usetool.AbortMalformed: 1}},
		"undeclared": {ToolOptions{}, strings.Replace(inForm("1"), "find", "seek", 1) + inForm("2"),
			strings.Replace(inForm("1"), "find", "seek", 1) + "{0:2}|tool_calls", strings.Replace(inForm("1"), "find", "seek", 1) + "«(2)»{0:2}|tool_calls", 2, map[usetool.AbortReason]int{aggregator.AbortUndeclared: 1}},
		"a block in a value": {ToolOptions{}, inForm(block("1")),
			`<tool_call>{"name":"find","arguments":{"q":"{0:1}"}}</tool_call>|tool_calls`,
			`<tool_call>{"name":"find","arguments":{"q":"«[1]»{0:1}"}}</tool_call>|tool_calls`, 2, map[usetool.AbortReason]int{usetool.AbortNested: 1}},
	} {
		if name == "a block in a value" {
			c.tools.SuppressTailAfterTools = keepTail
		}
		t.Run(name, func(t *testing.T) {
			for mode, want := range map[Mode]string{ModeJSON: c.json, ModeXML: c.xml} {
				opts := Options{
					ToolOptions:   c.tools,
					Patterns:      []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}},
					AcceptTextual: func(name string) bool { return name == "find" },
				}
				opts.OutputMode, opts.TextualTools = mode, TextualOn
				for _, size := range []int{1, 2, 3, 7, len(c.text)} {
					events := append(said("m", c.text, size), response(1), completed)
					checkRun(t, opts, events, want)
					_, report := run(opts, events, oneByOne)
					if report.Started != c.started || !maps.Equal(report.Aborted, c.aborted) {
						t.Errorf("%d blocks begun, aborted %v", report.Started, report.Aborted)
					}
				}
			}
		})
	}
}

// TestPatternTwins: a call in another textual form and the same call as a structured
// one are one call, and the turn ends though Codex waits for the result.
func TestPatternTwins(t *testing.T) {
	opts := Options{Patterns: []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}}}
	opts.TextualTools = TextualOn
	checkRun(t, opts, append(said("m", inForm("1"), 9), findCall("a", "1"), response(1), completed), "{0:1}|tool_calls")
}

// TestPatternsOff: where blocks are text, so are those of other forms.
func TestPatternsOff(t *testing.T) {
	opts := Options{Patterns: []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}}}
	checkRun(t, opts, append(said("m", inForm("1"), 9), completed), inForm("1")+"|stop")
}

// TestPatternGrace: the grace runs after a call in another form, and begins anew as
// long as a begun one is held.
func TestPatternGrace(t *testing.T) {
	opts := Options{Patterns: []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}}}
	opts.TextualTools = TextualOn
	m := New(&opts)
	m.Feed([]codexrpc.Event{delta("m", inForm("1")+"<tool_c")})
	_, before, running := m.Grace()
	if m.GraceOver(); !running || m.Done() {
		t.Fatal("a begun opener does not keep the turn")
	}
	if _, after, _ := m.Grace(); after == before {
		t.Error("the grace did not begin anew")
	}
	m.Feed([]codexrpc.Event{delta("m", "ool>")})
	if m.GraceOver(); !m.Done() {
		t.Error("the turn goes on")
	}
}
