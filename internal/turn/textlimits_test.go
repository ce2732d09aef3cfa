package turn

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
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
			checkSaid(t, c.opts, c.events, c.want)
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

// TestGraceOfHeldText: a grace goes on while what is held may become a block, and only then.
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
		if !m.grace.running {
			t.Fatalf("%s: no grace", name)
		}
		m.GraceOver()
		if m.Done() == c.running {
			t.Errorf("%s: done %v", name, m.Done())
		}
	}
}

type purse struct{ left, taken int }

func (p *purse) Take(n int) int {
	n = min(n, p.left)
	p.left -= n
	p.taken += n
	return n
}

func (p *purse) Raise(n int64) bool {
	more := max(0, int(n)-p.taken)
	p.taken += more
	p.left -= more
	return p.left > 0
}

type answer struct {
	text   strings.Builder
	calls  int
	finish FinishReason
	usage  codexrpc.Usage
}

func (a *answer) add(outputs []Output) {
	for _, o := range outputs {
		switch o.Kind {
		case OutputText:
			a.text.WriteString(o.Text)
		case OutputCall:
			a.calls++
		case OutputFinish:
			a.finish, a.usage = o.End.Finish, o.End.Usage
		}
	}
}

var words = []string{"one", " two", " three", "\n\n", " 1234", "x", "Grüße ", "你好", ", ", "/", strings.Repeat("long", 100), "end. "}

func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

// TestBudget checks that a budget ends a turn as a limit of as many tokens does, also together with such a
// limit. The cut is at most a few tokens behind the limit, and somewhat before it if tokens span pieces.
func TestBudget(t *testing.T) {
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := randomText(r, 300)
		all := tokens.Count(text)
		budget, limit := 1+r.IntN(all+10), 1+r.IntN(all+10)
		if r.IntN(2) == 0 {
			limit = 0
		}
		var events []codexrpc.Event
		for rest := text; rest != ""; {
			n := 1 + r.IntN(min(len(rest), 1+r.IntN(5000)))
			events = append(events, delta("m", rest[:n]))
			rest = rest[n:]
		}
		events = append(events, completed)
		least := budget
		if limit > 0 {
			least = min(least, limit)
		}
		var got answer
		from := &purse{left: budget}
		got.add(New(&Options{Budget: from, MaxTokens: limit}).Feed(events))
		used := tokens.Count(got.text.String())
		if !strings.HasPrefix(text, got.text.String()) || used > least {
			t.Errorf("seed %d: %d tokens came out, of at most %d", seed, used, least)
		}
		switch got.finish {
		case FinishLength:
			if got.usage.OutputTokens != int64(least) || used < least*19/20-3 {
				t.Errorf("seed %d: cut after %d tokens, counted as %d, of %d", seed, used, got.usage.OutputTokens, least)
			}
		default:
			if got.finish != FinishStop || used != all {
				t.Errorf("seed %d: %s after %d of %d tokens", seed, got.finish, used, all)
			}
		}
		if from.taken > 2*used+minBudgetStep+maxBudgetPiece || from.taken > budget {
			t.Errorf("seed %d: %d tokens taken for %d", seed, from.taken, used)
		}
	}
}

// TestBudgetIsShared checks that two turns together get no more than the budget has.
func TestBudgetIsShared(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 3))
		from := &purse{left: 1 + r.IntN(4000)}
		total := from.left
		machines, answers := []*Machine{New(&Options{Budget: from}), New(&Options{Budget: from})}, make([]answer, 2)
		for range 400 {
			i := r.IntN(2)
			answers[i].add(machines[i].Feed([]codexrpc.Event{delta("m", randomText(r, 10))}))
		}
		sum := 0
		for i := range answers {
			sum += int(machines[i].usage.sentTokens)
			if machines[i].Done() && answers[i].finish != FinishLength {
				t.Errorf("seed %d: finished with %s", seed, answers[i].finish)
			}
		}
		if !machines[0].Done() || !machines[1].Done() || sum != total {
			t.Errorf("seed %d: %d tokens of %d; done %v and %v", seed, sum, total, machines[0].Done(), machines[1].Done())
		}
	}
}

// TestBudgetForAll checks that a budget that has enough for several turns cuts none of them,
// whichever of them comes first.
func TestBudgetForAll(t *testing.T) {
	text := strings.Repeat(" word", 600)
	month, err := quota.ParseWindow("month")
	must.OK(t, err)
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 4))
		key := &quota.Key{Account: "k", Limits: []quota.Limit{{Unit: quota.Tokens, Max: 3000, Window: month}}}
		request, err := quota.NewLimits(quota.NewLedger(time.Now), 0, false).Begin(key)
		must.OK(t, err)
		grants, err := request.Acquire(4)
		must.OK(t, err)
		must.OK(t, request.Reserve(t.Context(), grants, 0))
		machines, rest := make([]*Machine, len(grants)), make([]string, len(grants))
		for i, g := range grants {
			machines[i], rest[i] = New(&Options{Budget: g}), text
		}
		for range 20_000 {
			i := r.IntN(len(machines))
			n := min(len(rest[i]), r.IntN(1+20*int(seed)))
			machines[i].Feed([]codexrpc.Event{delta("m", rest[i][:n])})
			rest[i] = rest[i][n:]
			if machines[i].Done() {
				t.Fatalf("seed %d: turn %d is cut, %d bytes before its end", seed, i, len(rest[i]))
			}
		}
	}
}

// TestBudgetOfCalls checks that calls take tokens, and end the turn beyond the budget.
func TestBudgetOfCalls(t *testing.T) {
	arguments := `{"q":"` + strings.Repeat("word ", 3000) + `"}`
	events := []codexrpc.Event{call("1", "f", arguments), call("2", "f", "{}"), response(5)}
	for left, want := range map[int]int{100: 1, 3000: 1, 100_000: 2} {
		var got answer
		got.add(New(&Options{Budget: &purse{left: left}}).Feed(events))
		if got.calls != want || got.finish != FinishToolCalls {
			t.Errorf("%d tokens: %d calls, %s", left, got.calls, got.finish)
		}
	}
	var got answer
	got.add(New(&Options{Budget: &purse{}}).Feed([]codexrpc.Event{call("1", "f", "{}")}))
	if got.calls != 0 || got.finish != FinishLength {
		t.Errorf("without a budget: %d calls, %s", got.calls, got.finish)
	}
}

// TestStrayCalls checks that a model that calls other tools than the client's is not asked again
// for ever, nor beyond the budget.
func TestStrayCalls(t *testing.T) {
	for left, want := range map[int]int{0: maxStrayResponses, 10_000: maxStrayResponses, 4001: 8, 1470: 2, 980: 1} {
		opts := &Options{ClientName: func(name string) (string, bool) { return name, name == "f" }}
		if left > 0 {
			opts.Budget = &purse{left: left}
		}
		m, rounds := New(opts), 0
		var got answer
		for !m.Done() && rounds < 2*maxStrayResponses {
			rounds++
			completed := response(10)
			completed.Usage.InputTokens = 490
			got.add(m.Feed([]codexrpc.Event{delta("m", "text "), call("1", "stray", "{}"), completed}))
		}
		if text := strings.Repeat("text ", rounds); rounds != want || got.finish != FinishLength || strings.ReplaceAll(got.text.String(), "\n", "") != text {
			t.Errorf("%d tokens: %d responses, want %d; %s %q", left, rounds, want, got.finish, got.text.String())
		}
	}
}
