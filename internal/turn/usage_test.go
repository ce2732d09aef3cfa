package turn

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestInterruptedUsage: a turn that is interrupted has at least the tokens that came
// here, and says so; one whose usage came has that.
func TestInterruptedUsage(t *testing.T) {
	textual := ToolOptions{TextualTools: TextualOn}
	told := response(7)
	const text, block = "one two three", "<use_tool><name>f</name></use_tool>"
	for name, c := range map[string]struct {
		opts      Options
		events    []codexrpc.Event
		end       func(m *Machine)
		output    int64
		estimated bool
	}{
		"the response ends":             {Options{}, []codexrpc.Event{delta("m", text), told, completed}, nil, 0, false},
		"the response has no usage":     {Options{}, []codexrpc.Event{delta("m", text), {Kind: codexrpc.EventResponseCompleted}, completed}, nil, 0, false},
		"a grace ends":                  {Options{ToolOptions: textual}, []codexrpc.Event{delta("m", block)}, func(m *Machine) { m.GraceOver() }, 12, true},
		"in the second response":        {Options{ToolOptions: textual}, []codexrpc.Event{delta("m", text), told, delta("n", block)}, func(m *Machine) { m.GraceOver() }, 12, true},
		"a stop sequence":               {Options{StopSequences: []string{" three"}}, []codexrpc.Event{delta("m", text)}, nil, 2, true},
		"the client goes":               {Options{}, []codexrpc.Event{delta("m", text)}, func(m *Machine) { m.Abandon() }, 3, true},
		"Codex is lost":                 {Options{}, []codexrpc.Event{delta("m", text)}, func(m *Machine) { m.Fail(codexrpc.ErrClosed) }, 3, true},
		"a structured call":             {Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst}}, []codexrpc.Event{call("a", "f", `{"a":1}`)}, func(m *Machine) { m.GraceOver() }, 6, true},
		"nothing was said":              {Options{}, []codexrpc.Event{thought("r", 0, "hm")}, func(m *Machine) { m.Abandon() }, 0, false},
		"more than is kept":             {Options{}, []codexrpc.Event{delta("m", strings.Repeat("one ", 2*maxPendingText/4))}, func(m *Machine) { m.Abandon() }, maxPendingText/4 + maxPendingText/4, true},
		"the thread's total comes late": {Options{}, []codexrpc.Event{delta("m", text), {Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{OutputTokens: 5, TotalTokens: 5}}, tooLong}, nil, 5, false},
	} {
		m := New(&c.opts)
		m.Feed(c.events)
		if c.end != nil {
			c.end(m)
		}
		got, estimated := m.Usage()
		if !m.Done() || got.OutputTokens < c.output || got.OutputTokens > c.output+1 || estimated != c.estimated {
			t.Errorf("%s: done %t, %+v, estimated %t", name, m.Done(), got, estimated)
		}
	}
}

// TestInterruptedUsageIsLinear: a text without any boundary of tokens is counted in
// linear time. Counted in one piece it would take longer than a test may.
func TestInterruptedUsageIsLinear(t *testing.T) {
	m := New(&Options{})
	m.Feed([]codexrpc.Event{delta("m", strings.Repeat("a", 10*maxPendingText))})
	m.Abandon()
	if got, _ := m.Usage(); got.OutputTokens < 10*maxPendingText/16 {
		t.Errorf("%d tokens", got.OutputTokens)
	}
}

// TestPriceOfTurn: the price of a turn is that of its responses, also of one without a usage.
func TestPriceOfTurn(t *testing.T) {
	m := New(&Options{})
	priced := func(text string) codexrpc.Event {
		return codexrpc.Event{Kind: codexrpc.EventResponseCompleted, Text: text}
	}
	m.Feed([]codexrpc.Event{priced("0.25"), priced(""), priced("0.5"), priced("dear"), completed})
	if got := m.Price(); got.Float() != 0.75 {
		t.Errorf("the price is %v", got.Float())
	}
}

// TestUsageOfFullContext: a conversation that is too long costs what it cost before.
// Codex then reports the size of the context as the thread's total.
func TestUsageOfFullContext(t *testing.T) {
	full := codexrpc.Event{Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{TotalTokens: 258400}}
	for name, c := range map[string]struct {
		spent  codexrpc.Usage
		events []codexrpc.Event
		want   codexrpc.Usage
	}{
		"at once":      {codexrpc.Usage{}, []codexrpc.Event{full, tooLong}, codexrpc.Usage{}},
		"in a thread":  {codexrpc.Usage{TotalTokens: 168, InputTokens: 123, CachedInputTokens: 23, OutputTokens: 45}, []codexrpc.Event{full, tooLong}, codexrpc.Usage{}},
		"after a text": {codexrpc.Usage{TotalTokens: 168, InputTokens: 123, OutputTokens: 45}, []codexrpc.Event{delta("m", "one two three"), full, tooLong}, codexrpc.Usage{TotalTokens: 3, OutputTokens: 3}},
	} {
		m := New(&Options{Spent: c.spent})
		m.Feed(c.events)
		if got, _ := m.Usage(); !m.Done() || got != c.want {
			t.Errorf("%s: %+v, done %t", name, got, m.Done())
		}
	}
}

// TestPrice: prices are read as decimal numbers, added without a rest, and written as they came.
func TestPrice(t *testing.T) {
	for text, want := range map[string]string{
		"0.1": "0.1", "12": "12", "1e-3": "0.001", "0.000000001": "0.000000001", "0.0000000004": "0", "1e300": "1000000",
		"": "0", "x": "0", "-1": "0", "NaN": "0", "Inf": "1000000",
	} {
		got, err := json.Marshal(parsePrice(text))
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
		var back Price
		if err := json.Unmarshal(got, &back); err != nil || back != parsePrice(text) {
			t.Errorf("%s is read as %d, %v", got, back, err)
		}
	}
	var sum Price
	for range 10 {
		sum = sum.Add(parsePrice("0.1"))
	}
	if sum.Float() != 1 {
		t.Errorf("ten times 0.1 are %v", sum.Float())
	}
	if got := Price(math.MaxInt64).Add(1); got != math.MaxInt64 {
		t.Errorf("the largest price and more are %d", got)
	}
	for number, wrong := range map[string]bool{"1e40": false, "-1": false, `"1"`: true, "null": true, "{}": true} {
		price := Price(7)
		if err := price.UnmarshalJSON([]byte(number)); (err != nil) != wrong || !wrong && price != 0 && price != math.MaxInt64 {
			t.Errorf("%s is read as %d, %v", number, price, err)
		}
	}
}
