package turn

import (
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
		"an open block is waited for": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool>")}}, {5*grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_tool>"):])}}},
			"{0:1}{1:2}|tool_calls", 6*grace + grace/2},
		"a block that is no call ends the wait": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool></use_tool>")}}, {5 * grace, []codexrpc.Event{delta("m", " so")}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:1}«<use_tool></use_tool>» so|tool_calls", 10 * grace},
		"which the next block begins anew": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool></use_tool>")}}, {5 * grace, []codexrpc.Event{two}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:1}«<use_tool></use_tool>»{1:2}|tool_calls", 6 * grace},
		"so is a begun tag": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_")}}, {grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_"):])}}},
			"{0:1}{1:2}|tool_calls", 2*grace + grace/2},
		"the end of the response ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"the failure of Codex ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)}}},
			"{0:1}|failure", grace / 2},
		"first does not wait": {Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst}}, []moment{{0, []codexrpc.Event{one}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1}|tool_calls", 0},
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
			s.mu.Lock()
			s.batches = append(s.batches, m.events)
			s.mu.Unlock()
			select {
			case s.ready <- struct{}{}:
			default:
			}
		}
	}()
	start := time.Now()
	if err := Drive(t.Context(), s, New(opts), l, time.Hour); err != nil {
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
