package turn

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// moment is what a source gives after a pause.
type moment struct {
	after  time.Duration
	events []codexrpc.Event
}

// TestGrace: textual blocks are waited for, structured calls never.
func TestGrace(t *testing.T) {
	const grace = time.Second
	one, two, three := delta("m", block("1")), delta("m", block("2")), delta("m", block("3"))
	structured := call("a", "find", `{"q":"2"}`)
	first, xml := Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst}}, Options{ToolOptions: ToolOptions{OutputMode: ModeXML}}
	for name, c := range map[string]struct {
		opts    Options
		moments []moment
		want    string
		took    time.Duration
	}{
		"silence after a block": {Options{}, []moment{{0, []codexrpc.Event{one}}},
			"{0:1}|tool_calls", grace},
		"each block begins it anew": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace - 1, []codexrpc.Event{two}}, {grace - 1, []codexrpc.Event{three}}},
			"{0:1}{1:2}{2:3}|tool_calls", 3*grace - 2},
		"a block too late": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace + 1, []codexrpc.Event{two}}},
			"{0:1}|tool_calls", grace},
		"text alone does not": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so")}}},
			"{0:1} so|tool_calls", grace},
		"a repeated block does": {Options{ToolOptions: ToolOptions{ToolBlockDedup: true}}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{one}}},
			"{0:1}|tool_calls", grace + grace/2},
		"an open block is waited for": {xml, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool>")}}, {5*grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_tool>"):])}}},
			written("«[1]»{0:1}«[2]»{1:2}|tool_calls"), 6*grace + grace/2},
		"an open block that grows is": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool>")}}, {2*grace - 1, []codexrpc.Event{delta("m", "<name>")}}, {grace, []codexrpc.Event{delta("m", block("2")[len("<use_tool><name>"):])}}},
			"{0:1}{1:2}|tool_calls", 4*grace - 1},
		"one that does not grow is not": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", "<use_tool><name>")}}, {50 * grace, []codexrpc.Event{delta("m", block("2")[len("<use_tool><name>"):])}}},
			"{0:1}<use_tool><name>|tool_calls", 2 * grace},
		"a block that is no call begins it anew": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", "<use_tool></use_tool>")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1}«<use_tool></use_tool>»|tool_calls", grace + grace/2},
		"prose about the tag is not waited for": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " the <use_tool> tag")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1} the <use_tool> tag|tool_calls", grace},
		"so is a begun tag": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_")}}, {grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_"):])}}},
			"{0:1}{1:2}|tool_calls", 2*grace + grace/2},
		"the end of the response ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"the failure of Codex ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)}}},
			"{0:1}|failure", grace / 2},
		"first waits a grace": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so <use_tool>")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1}|tool_calls", grace},
		"first learns of another": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{two}}, {grace, []codexrpc.Event{three}}},
			"{0:1}|tool_calls", grace},
		"first learns the usage": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so"), response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"first does not fail with Codex": {first, []moment{{0, []codexrpc.Event{structured}}, {grace / 2, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)}}},
			"{0:2}|tool_calls", grace / 2},
		"first waits a grace for structured calls": {first, []moment{{0, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{one}}},
			"{0:2}|tool_calls", grace},
		"off waits for the turn": {Options{ToolOptions: ToolOptions{StopAfterTools: StopOff}}, []moment{{0, []codexrpc.Event{one}}, {5 * grace, []codexrpc.Event{two}}, {5 * grace, []codexrpc.Event{completed}}},
			"{0:1}{1:2}|tool_calls", 10 * grace},

		"structured calls wait for the response": {Options{}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`)}}, {5 * grace, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:1}{1:2}|tool_calls", 10 * grace},
		"so does a turn of both, the block first": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{three, response(1)}}},
			"{0:1}{1:2}{2:3}|tool_calls", 5*grace + grace/2},
		"and the block last": {Options{}, []moment{{0, []codexrpc.Event{structured, one}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:2}{1:1}|tool_calls", 5 * grace},
		"and a block with its twin": {Options{}, []moment{{0, []codexrpc.Event{two, structured}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:2}|tool_calls", 5 * grace},

		"the limit waits for the usage": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`), structured}}, {grace / 2, []codexrpc.Event{response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"but a grace at most": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`), structured}}, {grace - 1, []codexrpc.Event{call("c", "find", `{"q":"3"}`)}}, {grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
		"whatever is being written": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{one, two, delta("m", "<use_tool><name>")}}, {grace - 1, []codexrpc.Event{three}}, {grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
		"and also when nothing stops a turn": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1, StopAfterTools: StopOff}}, []moment{{0, []codexrpc.Event{one, two}}, {5 * grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.TextualTools, c.opts.SuppressTailAfterTools, c.opts.Grace = TextualOn, keepTail, grace
			synctest.Test(t, func(t *testing.T) { checkDrive(t, c.opts, c.moments, c.want, c.took) })
		})
	}
}

// TestNoGrace: without a grace, a turn ends once all that has arrived is processed.
func TestNoGrace(t *testing.T) {
	one, two := delta("m", block("1")), delta("m", block("2"))
	for name, c := range map[string]struct {
		stop    StopMode
		moments []moment
		want    string
	}{
		"burst":                    {StopBurst, []moment{{0, []codexrpc.Event{one, two}}, {1, []codexrpc.Event{two}}}, "{0:1}{1:2}|tool_calls"},
		"first":                    {StopFirst, []moment{{0, []codexrpc.Event{one, two}}, {1, []codexrpc.Event{two}}}, "{0:1}|tool_calls"},
		"first, a structured call": {StopFirst, []moment{{0, []codexrpc.Event{call("a", "find", `{"q":"1"}`)}}}, "{0:1}|tool_calls"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: c.stop}}
			synctest.Test(t, func(t *testing.T) { checkDrive(t, opts, c.moments, c.want, 0) })
		})
	}
	// What has arrived when the grace ends still counts.
	s, l := newScript(), &teller{}
	s.batches = [][]codexrpc.Event{{one}, {two}}
	opts := Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}
	if err := Drive(t.Context(), s, New(&opts), l, time.Hour); err != nil || l.told != "{0:1}{1:2}|tool_calls" {
		t.Error(l.told, err)
	}
}

// TestFirst: the client gets the first call and nothing after it; what else the model
// said is counted.
func TestFirst(t *testing.T) {
	tail := " and so on"
	for name, c := range map[string]struct {
		events    []codexrpc.Event
		truncated bool
		tail      int
		usage     int64
	}{
		"one call":              {[]codexrpc.Event{delta("m", block("1")+tail), response(7)}, false, len(tail), 7},
		"two calls":             {[]codexrpc.Event{delta("m", block("1")+tail), delta("m", block("2")+tail), response(7)}, true, len(tail), 7},
		"two structured":        {[]codexrpc.Event{findCall("a", "1"), findCall("b", "2"), response(7)}, true, 0, 7},
		"a structured twin":     {[]codexrpc.Event{delta("m", block("1")), findCall("b", "1"), response(7)}, false, 0, 7},
		"reasoning":             {[]codexrpc.Event{findCall("a", "1"), thought("r", 0, "hm"), reasoned("r", "x"), response(7)}, false, 0, 7},
		"a cut response":        {[]codexrpc.Event{delta("m", block("1")+"<use_tool>"), tooLong}, false, 10, 22},
		"a block that is none":  {[]codexrpc.Event{delta("m", block("1")+"<use_tool></use_tool>"), response(7)}, false, 21, 7},
		"an open block at once": {[]codexrpc.Event{delta("m", block("1")+"<use_tool>"), response(7)}, false, 10, 7},
	} {
		for _, items := range []bool{false, true} {
			opts := Options{Items: items, ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}
			m := New(&opts)
			var got strings.Builder
			var end Output
			for _, o := range m.Feed(c.events) {
				got.WriteString(told([]Output{o}))
				end = o
			}
			if want := written("{0:1}|tool_calls"); !strings.HasSuffix(got.String(), want) || strings.Count(got.String(), "<use_tool>") != 1 || strings.Contains(got.String(), "~") {
				t.Errorf("%s: %s", name, got.String())
			}
			if r := m.Report(); r.Truncated != c.truncated || r.Calls != 1 || r.TailBytes != c.tail || end.End.Usage.TotalTokens != c.usage {
				t.Errorf("%s: %+v, usage %+v", name, r, end.End.Usage)
			}
		}
	}
}

// checkDrive drives a turn through its moments, in a time of its own.
func checkDrive(t *testing.T, opts Options, moments []moment, want string, took time.Duration) {
	t.Helper()
	s, l := newScript(), &teller{}
	done := make(chan struct{})
	go func() {
		for _, m := range moments {
			select {
			case <-time.After(m.after):
			case <-done:
				return
			}
			s.give(m.events...)
		}
	}()
	start := time.Now()
	if err := Drive(t.Context(), s, New(&opts), l, time.Hour); err != nil {
		t.Fatal(err)
	}
	lasted := time.Since(start)
	close(done)
	if l.told != want || lasted != took {
		t.Errorf("%s after %s; want %s after %s", l.told, lasted, want, took)
	}
}

// teller is a consumer that notes what it is told.
type teller struct {
	listener
	told string
}

func (l *teller) Consume(outputs []Output) error {
	l.told += told(outputs)
	return nil
}
