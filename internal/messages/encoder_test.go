package messages

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

var testMeta = Meta{ID: "msg_1", Model: "claude-m", Thinking: ThinkingShown, Deferred: "call_tool", InputTokens: 7}

var said, thought, finished = outputs.Text, outputs.Reasoning, outputs.Finish

func called(n int, name, arguments string) []turn.Output {
	return []turn.Output{outputs.Call(n, fmt.Sprint("tool_0_", n), name, arguments)}
}

func begun(meta Meta, emit api.Emit) *Encoder {
	e := NewEncoder(meta)
	e.Begin(emit)
	return e
}

// wireOf returns the text of a stream.
func wireOf(events []outputs.Event) string {
	var wire strings.Builder
	for _, e := range events {
		fmt.Fprintf(&wire, "event: %s\ndata: %s\n\n", e.Type, e.Data)
	}
	return wire.String()
}

// client reads answers strictly.
func client(meta Meta) outputs.Client[*messagecheck.Message] {
	return outputs.Client[*messagecheck.Message]{
		Encoder: func() api.Encoder { return NewEncoder(meta) },
		Stream: func(events []outputs.Event) (*messagecheck.Message, error) {
			r, err := messagecheck.Stream(wireOf(events))
			if err != nil {
				return nil, err
			}
			return r.Message, nil
		},
		Whole: messagecheck.Whole,
	}
}

// checkFold returns what a client has, whether it streams or not.
func checkFold(t testing.TB, meta Meta, outs []turn.Output) *messagecheck.Message {
	t.Helper()
	m, _ := client(meta).Check(t, outs)
	return m
}

// TestFold: what a client has of the outputs of a turn.
func TestFold(t *testing.T) {
	omitted, off, text := testMeta, testMeta, testMeta
	omitted.Thinking, off.Thinking, text.CallsInText = ThinkingOmitted, ThinkingOff, true
	gap := turn.Output{Kind: turn.OutputText, Gap: true}
	part := turn.Output{Kind: turn.OutputReasoning, ID: "a", Part: 1, Text: "\n\n", Gap: true}
	endA, endB := turn.Output{Kind: turn.OutputReasoningEnd, ID: "a", Text: "enc"}, turn.Output{Kind: turn.OutputReasoningEnd, ID: "b"}
	reasoned := []turn.Output{thought("a", "One."), part, thought("a", "Two."), endA, thought("b", "Three."), endB, said("So."), finished(turn.FinishStop)}
	stop := finished(turn.FinishStop)
	stop.End.StopSequence = "END"
	calls := append(called(0, "ls", `{"a":1}`), called(1, "pwd", " { } ")...)
	calls = append(calls, called(2, "pwd", "")...)
	before := turn.End{Usage: codexrpc.Usage{InputTokens: 2}}
	summary := turn.Output{Kind: turn.OutputSummary, Text: "All \"of\" it.", Name: "codex-sealed-1.x", End: &before}
	alone, none := summary, summary
	alone.End, none.Text, none.Name = nil, "", ""
	for name, c := range map[string]struct {
		meta Meta
		outs []turn.Output
		want string // the blocks, and the end
	}{
		"nothing":              {testMeta, []turn.Output{finished(turn.FinishStop)}, "end_turn"},
		"text":                 {testMeta, []turn.Output{said("a"), said(""), said("b"), finished(turn.FinishLength)}, "text ab; max_tokens"},
		"two messages":         {testMeta, []turn.Output{said("a"), gap, said("b"), gap, finished(turn.FinishStop)}, "text a; text b; end_turn"},
		"a stop sequence":      {testMeta, []turn.Output{said("a"), stop}, "text a; stop_sequence END"},
		"a refusal":            {testMeta, []turn.Output{finished(turn.FinishContentFilter)}, `refusal`},
		"reasoning":            {testMeta, reasoned, "thinking One.\n\nTwo. codex-1.a.enc; thinking Three. ; text So.; end_turn"},
		"reasoning, omitted":   {omitted, reasoned, "thinking  codex-1.a.enc; text So.; end_turn"},
		"reasoning, off":       {off, reasoned, "text So.; end_turn"},
		"calls":                {testMeta, append(calls, finished(turn.FinishToolCalls)), `tool_use ls {"a":1}; tool_use pwd {}; tool_use pwd {}; tool_use`},
		"calls in the text":    {text, append(append([]turn.Output{said("<use_tool>")}, calls...), finished(turn.FinishToolCalls)), `text <use_tool>; end_turn`},
		"a summary":            {testMeta, []turn.Output{alone, finished(turn.FinishStop)}, `compaction "All \"of\" it." codex-sealed-1.x; compaction`},
		"a summary and more":   {testMeta, []turn.Output{summary, said("So."), finished(turn.FinishStop)}, `compaction "All \"of\" it." codex-sealed-1.x; text So.; end_turn`},
		"a summary and a call": {testMeta, append(append([]turn.Output{summary}, called(0, "ls", `{"a":1}`)...), finished(turn.FinishToolCalls)), `compaction "All \"of\" it." codex-sealed-1.x; tool_use ls {"a":1}; tool_use`},
		"no summary":           {testMeta, []turn.Output{none, said("So."), finished(turn.FinishStop)}, `compaction null; text So.; end_turn`},
		"odd input": {testMeta, append(append(called(0, "f", "[1]"), called(1, "f", `{"a":`)...), finished(turn.FinishToolCalls)),
			`tool_use f {"__unparsedToolInput":{"raw":"[1]","len":3}}; tool_use f {"__unparsedToolInput":{"raw":"{\"a\":","len":5}}; tool_use`},
		"input in the form of an odd one": {testMeta, append(called(0, "f", `{"__unparsedToolInput":{"raw":"x"}}`), finished(turn.FinishToolCalls)),
			`tool_use f {"__unparsedToolInput":{"raw":"{\"__unparsedToolInput\":{\"raw\":\"x\"}}","len":35}}; tool_use`},
		"a deferred tool": {testMeta, append(called(0, "call_tool", `{"name":"Web","arguments":{"q":1}}`), finished(turn.FinishToolCalls)), `tool_use Web {"q":1}; tool_use`},
		"a deferred tool with its arguments as a text": {testMeta, append(called(0, "call_tool", `{"name":"Web","arguments":"{\"q\":1}"}`), finished(turn.FinishToolCalls)), `tool_use Web {"q":1}; tool_use`},
		"a deferred tool without arguments":            {testMeta, append(called(0, "call_tool", `{"name":"Web"}`), finished(turn.FinishToolCalls)), `tool_use Web {}; tool_use`},
		"a deferred tool with a list":                  {testMeta, append(called(0, "call_tool", `{"name":"Web","arguments":[1,2]}`), finished(turn.FinishToolCalls)), `tool_use Web {"__unparsedToolInput":{"raw":"[1,2]","len":5}}; tool_use`},
		"no deferred tool":                             {testMeta, append(called(0, "call_tool", `{"nam":"Web"}`), finished(turn.FinishToolCalls)), `tool_use call_tool {"nam":"Web"}; tool_use`},
		"a search": {testMeta, []turn.Output{
			{Kind: turn.OutputSearchStart, ID: "ws"}, {Kind: turn.OutputSearchEnd, ID: "ws", Text: `{"type":"search","query":"q"}`},
			said("See."), {Kind: turn.OutputAnnotations, Text: `[{"type":"url_citation","url":"https://a.example","title":"A"},7]`}, gap, finished(turn.FinishStop),
		}, `server_tool_use web_search {"query":"q"}; text See. [{"type":"web_search_result_location","url":"https://a.example","title":"A","cited_text":"","encrypted_index":""}]; ` +
			`web_search_tool_result [{"type":"web_search_result","url":"https://a.example","title":"A","encrypted_content":"","page_age":null}]; end_turn`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shown(checkFold(t, c.meta, c.outs)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// shown returns the blocks of a message, and its end.
func shown(m *messagecheck.Message) string {
	all := ""
	for _, b := range m.Content {
		switch input, _ := json.Marshal(b.Input); b.Type {
		case "text":
			all += "text " + b.Text
			if b.Citations != nil {
				cited, _ := json.Marshal(b.Citations)
				all += " " + string(cited)
			}
		case "thinking":
			all += "thinking " + b.Thinking + " " + b.Signature
		case "tool_use", "server_tool_use":
			all += b.Type + " " + b.Name + " " + string(input)
		case "compaction":
			all += "compaction " + string(b.Content)
			if b.Encrypted != nil {
				all += " " + *b.Encrypted
			}
		default:
			all += b.Type + " " + string(b.Content)
		}
		all += "; "
	}
	all += m.StopReason
	if m.StopSequence != nil {
		all += " " + *m.StopSequence
	}
	return all
}

// TestUsage: the inputs are disjoint, and the begin of a stream has numbers.
func TestUsage(t *testing.T) {
	wire, c := "", client(testMeta)
	read := c.Stream
	c.Stream = func(events []outputs.Event) (*messagecheck.Message, error) {
		wire = wireOf(events)
		return read(events)
	}
	m, _ := c.Check(t, []turn.Output{said("a"), finished(turn.FinishStop)})
	if u := m.Usage; *u.Input != 3 || *u.CacheRead != 3 || *u.CacheWrite != 1 || *u.Output != 5 || u.ServiceTier != "standard" {
		t.Errorf("%+v", u)
	}
	for _, want := range []string{
		`"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"service_tier":"standard"}`,
		`"output_tokens_details":{"thinking_tokens":2}`,
	} {
		if !strings.Contains(wire, want) {
			t.Errorf("%s lacks %s", wire, want)
		}
	}
}

// TestSummaryUsage: what a summary has used is not in the usage of the message.
func TestSummaryUsage(t *testing.T) {
	all := codexrpc.Usage{InputTokens: 100, CachedInputTokens: 60, OutputTokens: 30, ReasoningOutputTokens: 5}
	end := finished(turn.FinishStop)
	end.End.Usage = all
	summary := turn.Output{Kind: turn.OutputSummary, Text: "S", Name: "codex-sealed-1.x"}
	m := checkFold(t, testMeta, []turn.Output{summary, end})
	if u := m.Usage; *u.Input+*u.CacheRead+*u.Output+u.Details.Thinking != 0 || len(u.Iterations) != 1 || u.Iterations[0] != (messagecheck.Iteration{Type: "compaction", Input: 40, CacheRead: 60, Output: 30}) {
		t.Errorf("alone: %+v", u)
	}
	summary.End = &turn.End{Usage: codexrpc.Usage{InputTokens: 80, CachedInputTokens: 55, OutputTokens: 20}}
	m = checkFold(t, testMeta, []turn.Output{summary, said("a"), end})
	if u := m.Usage; *u.Input != 15 || *u.CacheRead != 5 || *u.Output != 10 || u.Details.Thinking != 5 || len(u.Iterations) != 2 ||
		u.Iterations[0] != (messagecheck.Iteration{Type: "compaction", Input: 25, CacheRead: 55, Output: 20}) ||
		u.Iterations[1] != (messagecheck.Iteration{Type: "message", Input: 15, CacheRead: 5, Output: 10}) {
		t.Errorf("before the answer: %+v", u)
	}
	end.End.Finish = turn.FinishContentFilter
	if m = checkFold(t, testMeta, []turn.Output{summary, end}); m.StopReason != "refusal" || *m.Usage.Input != 15 {
		t.Errorf("before an answer without text: %s, %+v", m.StopReason, m.Usage)
	}
}

// TestEstimatedUsage: an answer that was interrupted before its usage came has the estimate of its
// input, as the begin of a stream has it.
func TestEstimatedUsage(t *testing.T) {
	end := finished(turn.FinishLength)
	end.End.Estimated, end.End.Usage = true, codexrpc.Usage{OutputTokens: 2}
	if m := checkFold(t, testMeta, []turn.Output{said("a b"), end}); *m.Usage.Input != testMeta.InputTokens || *m.Usage.Output != 2 {
		t.Errorf("%d %d", *m.Usage.Input, *m.Usage.Output)
	}
}

func TestStreamedEqualsWhole(t *testing.T) {
	random := func(r *rand.Rand) outputs.Client[*messagecheck.Message] {
		meta := testMeta
		meta.Thinking, meta.CallsInText = Thinking(r.IntN(3)), r.IntN(4) == 0
		if r.IntN(4) == 0 {
			meta.management = &contextManagement{Applied: []json.RawMessage{[]byte(`{"type":"x"}`)}[:r.IntN(2)]}
		}
		return client(meta)
	}
	outputs.StreamedEqualsWhole(t, 1000, random, "f", "call_tool")
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		outs := outputs.Random(r, "f")
		summary := turn.Output{Kind: turn.OutputSummary, End: &turn.End{Usage: codexrpc.Usage{InputTokens: 3}}}
		if r.IntN(3) > 0 {
			summary.Text, summary.Name = "S "+outs[0].Text, "codex-sealed-1.x"
		}
		random(r).CheckCut(t, r, append([]turn.Output{summary}, outs...))
	}
}

// TestFailure: an error ends a stream, whose client reads it even before its begin.
func TestFailure(t *testing.T) {
	var wire strings.Builder
	s := begun(testMeta, func(event string, data []byte) error {
		fmt.Fprintf(&wire, "event: %s\ndata: %s\n\n", event, data)
		return nil
	})
	_ = s.Open()
	_ = s.Write(0, said("a"))
	_ = s.Fail(tooLong(t))
	_ = s.Write(0, said("b"))
	_ = s.Fail(tooLong(t))
	r, err := messagecheck.Stream(wire.String())
	if err != nil || r.Failure == nil || r.Failure.Error.Type != "invalid_request_error" || !strings.HasPrefix(r.Failure.Error.Message, "prompt is too long: ") || !s.Done() {
		t.Errorf("%v %+v of %s", err, r.Failure, wire.String())
	}
}

// TestLargeInput checks that the input of a call comes in pieces: what the events of a stream
// are made in does not grow with it.
func TestLargeInput(t *testing.T) {
	for _, piece := range []string{"x", "é", "漢字", "🙂"} {
		input := `{"a":"` + strings.Repeat(piece, 16*maxPiece/len(piece)) + `"}`
		outs := append(called(0, "f", input), finished(turn.FinishToolCalls))
		s := begun(testMeta, func(string, []byte) error { return nil })
		for _, out := range outs {
			must.OK(t, s.Write(0, out))
		}
		if made := cap(s.Take()); made > 4*maxPiece {
			t.Errorf("%d bytes for %q", made, piece)
		}
		if m := checkFold(t, testMeta, outs); string(m.Content[0].Input) != input {
			t.Errorf("with %q: %d bytes came of %d", piece, len(m.Content[0].Input), len(input))
		}
	}
}

// TestDeepInput checks that the next request can have each call that a client gets, however deeply
// its arguments are nested.
func TestDeepInput(t *testing.T) {
	for depth := range 130 {
		arguments := strings.Repeat(`{"a":`, depth) + `{}` + strings.Repeat(`}`, depth)
		input := wrapUnparsed(arguments)
		if isSame := input == arguments; isSame != (depth < 121) {
			t.Errorf("depth %d is sent as it is: %t", depth, isSame)
		}
		plan := planOf(t, ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":`+input+`}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}`, ""))
		if history := fmt.Sprintf("%s", plan.History); !strings.Contains(history, string(wirejson.AppendString(nil, []byte(arguments)))) {
			t.Errorf("depth %d: the model is sent %s", depth, history)
		}
	}
}
