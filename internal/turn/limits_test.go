package turn

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestLimits: stop sequences and the limit of tokens, and what ends with them.
func TestLimits(t *testing.T) {
	until := func(sequences ...string) Options { return Options{StopSequences: sequences} }
	tokens := func(n int) Options { return Options{MaxTokens: n} }
	with := func(o Options, change func(*Options)) Options { change(&o); return o }
	textual := func(o *Options) { o.TextualTools, o.OutputMode, o.StopAfterTools = TextualOn, ModeXML, StopOff }
	incomplete := ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: incompletePrefix + "max_output_tokens"})
	const find = "<use_tool><name>f</name></use_tool>"
	const findTold = "text \"" + find + "\"\ncall 0 tool_0_0 f {}\n"
	for name, c := range map[string]struct {
		opts   Options
		events []codexrpc.Event
		want   string
	}{
		"a stop sequence": {until("END"), []codexrpc.Event{delta("m", "so EN"), delta("m", "D more"), completed},
			"text \"so \"\nfinish stop 2 at \"END\"\n"},
		"a stop sequence that was none": {until("END"), []codexrpc.Event{delta("m", "so EN"), delta("m", "d"), completed},
			"text \"so \"\ntext \"ENd\"\nfinish stop 0\n"},
		"held to the end": {until("END"), []codexrpc.Event{delta("m", "so EN"), completed},
			"text \"so \"\ntext \"EN\"\nfinish stop 0\n"},
		"not in reasoning nor in arguments": {until("END"), []codexrpc.Event{thought("r", 0, "END"), call("1", "f", `"END"`), response(5)},
			"reasoning \"END\"\ncall 0 tool_0_0 f \"END\"\nfinish tool_calls 5\n"},
		"not over messages": {until("END"), []codexrpc.Event{delta("a", "EN"), delta("b", "D"), completed},
			"text \"EN\"\ntext \"\\n\\n\"\ntext \"D\"\nfinish stop 0\n"},
		"not over a call": {until("END"), []codexrpc.Event{delta("m", "EN"), call("1", "f", "{}"), delta("m", "D"), response(5)},
			"text \"EN\"\ncall 0 tool_0_0 f {}\ntext \"D\"\nfinish tool_calls 5\n"},
		"no gap before nothing": {until("END"), []codexrpc.Event{delta("a", "One."), delta("b", "EN"), delta("b", "D"), completed},
			"text \"One.\"\nfinish stop 2 at \"END\"\n"},
		"a stop sequence after a call": {with(until("END"), textual), []codexrpc.Event{delta("m", find+"END"), completed},
			findTold + "finish tool_calls 13\n"},
		"a stop sequence in a block": {with(until("</name>"), textual), []codexrpc.Event{delta("m", find), completed},
			"text \"<use_tool><name>f\"\nfinish stop 7 at \"</name>\"\n"},
		"a stop sequence after too many calls": {
			with(until("END"), func(o *Options) { textual(o); o.ToolBlockMax = 1 }),
			[]codexrpc.Event{delta("m", find+find+"END"), response(5)},
			findTold + "finish tool_calls 5\n"},

		"tokens": {tokens(3), []codexrpc.Event{delta("m", "one two"), delta("m", " three fo"), delta("m", "ur five"), completed},
			"text \"one two\"\ntext \" three\"\nfinish length 3\n"},
		"exactly as many tokens": {tokens(3), []codexrpc.Event{delta("m", "one two three"), completed},
			"text \"one two three\"\nfinish stop 0\n"},
		"no gap beyond the tokens": {tokens(2), []codexrpc.Event{delta("a", "one two"), delta("b", "three"), completed},
			"text \"one two\"\nfinish length 2\n"},
		"not of reasoning": {tokens(1), []codexrpc.Event{thought("r", 0, "one two three"), delta("m", "one"), completed},
			"reasoning \"one two three\"\ntext \"one\"\nfinish stop 0\n"},
		"a call beyond the tokens": {tokens(1), []codexrpc.Event{call("1", "f", `{"q":"one two three"}`), call("2", "f", "{}"), response(5)},
			"call 0 tool_0_0 f {\"q\":\"one two three\"}\nfinish tool_calls 8\n"},
		"a call after the tokens": {tokens(2), []codexrpc.Event{delta("m", "one two"), call("1", "f", "{}"), response(5)},
			"text \"one two\"\nfinish length 2\n"},
		"text after calls": {tokens(4), []codexrpc.Event{call("1", "f", "{}"), delta("m", "one two three four"), response(5)},
			"call 0 tool_0_0 f {}\ntext \"one two\"\nfinish tool_calls 4\n"},
		"a block in the tokens": {with(tokens(14), textual), []codexrpc.Event{delta("m", find), delta("m", " one two three four"), completed},
			findTold + "text \" one\"\nfinish tool_calls 14\n"},
		"a block beyond the tokens": {with(tokens(8), textual), []codexrpc.Event{delta("m", find), completed},
			"text \"<use_tool><name>f</\"\nfinish length 8\n"},
		"a stop sequence beyond the tokens": {Options{MaxTokens: 2, StopSequences: []string{"END"}},
			[]codexrpc.Event{delta("m", "one two three END"), completed},
			"text \"one two\"\nfinish length 2\n"},
		"a stop sequence behind the tokens": {Options{MaxTokens: 2, StopSequences: []string{"END"}},
			[]codexrpc.Event{delta("m", "one twoEND"), completed},
			"text \"one two\"\nfinish stop 2 at \"END\"\n"},

		"words after a broken call": {Options{}, []codexrpc.Event{call("1", "f", "{"), delta("m", "so"), incomplete},
			"call 0 tool_0_0 f {\ntext \"so\"\nfinish tool_calls 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.SuppressTailAfterTools = keepTail
			for _, cut := range batchings {
				if got := feed(c.opts, c.events, cut); got != c.want {
					t.Errorf("got\n%swant\n%s", got, c.want)
				}
			}
		})
	}
}

// TestLimitUsage: the tokens that were counted are added to those of earlier responses,
// whose usage Codex has told.
func TestLimitUsage(t *testing.T) {
	text := delta("m", "one two three four")
	told := func(u codexrpc.Usage) []codexrpc.Event {
		return []codexrpc.Event{{Kind: codexrpc.EventTokenUsage, Usage: &u}, text}
	}
	for name, c := range map[string]struct {
		events []codexrpc.Event
		want   codexrpc.Usage
	}{
		"nothing told": {[]codexrpc.Event{text}, codexrpc.Usage{OutputTokens: 3, TotalTokens: 3}},
		"less told": {
			told(codexrpc.Usage{InputTokens: 10, CachedInputTokens: 4, OutputTokens: 1, TotalTokens: 11}),
			codexrpc.Usage{InputTokens: 10, CachedInputTokens: 4, OutputTokens: 4, TotalTokens: 14},
		},
		"more told": {
			told(codexrpc.Usage{InputTokens: 10, OutputTokens: 7, TotalTokens: 17}),
			codexrpc.Usage{InputTokens: 10, OutputTokens: 10, TotalTokens: 20},
		},
	} {
		outputs := New(&Options{MaxTokens: 3}).Feed(c.events)
		if last := outputs[len(outputs)-1]; last.End.Finish != FinishLength || last.End.Usage != c.want || !last.End.Estimated {
			t.Errorf("%s: %+v, want %+v", name, last, c.want)
		}
	}
}

// TestGraceOfHeldText: a grace goes on while what is held may become a block,
// and only then.
func TestGraceOfHeldText(t *testing.T) {
	for name, c := range map[string]struct {
		opts    Options
		held    string
		running bool
	}{
		"a begun tag before a stop sequence":   {Options{StopSequences: []string{"<use_tool>\n\n"}}, "<use", true},
		"text before a stop sequence":          {Options{StopSequences: []string{"\n\nEND"}}, "\n\nE", false},
		"a begun tag at the limit of tokens":   {Options{MaxTokens: 30}, " <us", true},
		"a begun word at the limit of tokens":  {Options{MaxTokens: 30}, " wor", false},
		"nothing that could become a tool tag": {Options{}, "wor", false},
	} {
		c.opts.TextualTools, c.opts.OutputMode, c.opts.StopAfterTools = TextualOn, ModeXML, StopBurst
		m := New(&c.opts)
		m.Feed([]codexrpc.Event{delta("m", "<use_tool><name>f</name></use_tool>"), delta("m", c.held)})
		_, _, running := m.Grace()
		if !running {
			t.Fatalf("%s: no grace", name)
		}
		m.GraceOver()
		if m.Done() == c.running {
			t.Errorf("%s: done %v", name, m.Done())
		}
	}
}
