package ollama

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

var testMeta = Meta{Model: "m:latest", Arrived: time.Now(), InputTokens: 9}

var said, finished = outputs.Text, outputs.Finish

func thought(text string) turn.Output { return outputs.Reasoning("", text) }

func called(n int, arguments string) []turn.Output {
	return []turn.Output{outputs.Call(n, fmt.Sprint("tool_0_", n), "f", arguments)}
}

func begun(meta Meta, emit api.Emit) *Encoder {
	e := NewEncoder(meta)
	e.Begin(emit)
	return e
}

// client reads answers strictly.
func client(meta Meta) outputs.Client[*ollamacheck.Answer] {
	return outputs.Client[*ollamacheck.Answer]{
		Encoder: func() api.Encoder { return NewEncoder(meta) },
		Stream: func(events []outputs.Event) (*ollamacheck.Answer, error) {
			var wire strings.Builder
			for _, e := range events {
				wire.Write(append(e.Data, '\n'))
			}
			a, err := ollamacheck.Stream(wire.String(), meta.generate)
			if err == nil {
				a.Lines = 0
			}
			return a, err
		},
		Whole: func(body []byte) (*ollamacheck.Answer, error) { return ollamacheck.Whole(body, meta.generate) },
	}
}

func shown(a *ollamacheck.Answer) string {
	all := a.Thinking + "|" + a.Text + "|"
	for _, c := range a.Calls {
		all += c.ID + " " + c.Function.Name + "("
		for name, v := range c.Function.Arguments {
			all += name + "=" + string(v)
		}
		all += ")"
	}
	return all + "|" + a.Reason + a.Failure
}

// TestAnswer: what a client has of the outputs of a turn.
func TestAnswer(t *testing.T) {
	silent, inText, generate, load, unload := testMeta, testMeta, testMeta, testMeta, testMeta
	silent.noThinking, inText.CallsInText, generate.generate, load.loadReason, unload.loadReason = true, true, true, "load", "unload"
	calls := append(append(called(0, "{\"a\":\n1}"), called(1, "")...), finished(turn.FinishToolCalls))
	for name, c := range map[string]struct {
		meta Meta
		outs []turn.Output
		want string
	}{
		"nothing":              {testMeta, []turn.Output{finished(turn.FinishStop)}, "|||stop"},
		"text":                 {testMeta, []turn.Output{said("a"), said(""), said("b\n"), finished(turn.FinishLength)}, "|ab\n||length"},
		"a completion":         {generate, []turn.Output{thought("t"), said("a"), finished(turn.FinishStop)}, "t|a||stop"},
		"a refusal":            {testMeta, []turn.Output{finished(turn.FinishContentFilter)}, "|||content_filter"},
		"reasoning":            {testMeta, []turn.Output{thought("a"), thought("b"), said("c"), finished(turn.FinishStop)}, "ab|c||stop"},
		"reasoning, off":       {silent, []turn.Output{thought("a"), said("c"), finished(turn.FinishStop)}, "|c||stop"},
		"calls":                {testMeta, calls, "||tool_0_0 f(a=1)tool_0_1 f()|stop"},
		"calls in the text":    {inText, append([]turn.Output{said("<use_tool>")}, calls...), "|<use_tool>||stop"},
		"long numbers":         {testMeta, append(called(0, `{"a":12345678901234567890.10}`), finished(turn.FinishToolCalls)), "||tool_0_0 f(a=12345678901234567890.10)|stop"},
		"half a pair":          {testMeta, append(called(0, `{"a":"\ud83d"}`), finished(turn.FinishToolCalls)), `||tool_0_0 f(a="\ufffd")|stop`},
		"no turn":              {load, []turn.Output{finished(turn.FinishStop)}, "|||load"},
		"no turn and no model": {unload, []turn.Output{finished(turn.FinishStop)}, "|||unload"},
		"arguments that are no object": {testMeta, append([]turn.Output{said("a")}, called(0, "[1]")...),
			"|a||The model has called the tool \"f\" with arguments that are not a JSON object, or are nested too deeply. Please try again."},
		"arguments that break off": {testMeta, called(0, `{"a":`),
			"|||The model has called the tool \"f\" with arguments that are not a JSON object, or are nested too deeply. Please try again."},
	} {
		t.Run(name, func(t *testing.T) {
			a, failed := client(c.meta).Check(t, c.outs)
			if got := shown(a); got != c.want || (failed != nil) != (a.Failure != "") || failed != nil && failed.Status != 502 {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDeepArguments checks that the next request can have each call that a client gets, however
// deeply its arguments are nested.
func TestDeepArguments(t *testing.T) {
	for depth := range 130 {
		arguments := strings.Repeat(`{"a":`, depth) + `{}` + strings.Repeat(`}`, depth)
		sent, ok := argumentsObject(arguments)
		if ok != (depth < 120) {
			t.Errorf("depth %d is sent: %t", depth, ok)
		}
		if !ok {
			continue
		}
		if _, apiErr := DecodeChat([]byte(ask(question+`,{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":`+string(sent)+`}}]},{"role":"tool","content":"r"}`, ""))); apiErr != nil {
			t.Errorf("depth %d: %v", depth, apiErr)
		}
	}
}

// TestCounts: the usage of a turn, or an estimate for one that was interrupted before it.
func TestCounts(t *testing.T) {
	if a, _ := client(testMeta).Check(t, []turn.Output{said("a"), finished(turn.FinishStop)}); a.Input != outputs.Usage.InputTokens || a.Output != 5 || a.Model != "m:latest" {
		t.Errorf("%+v", a)
	}
	end := turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishLength, Estimated: true, Usage: codexrpc.Usage{OutputTokens: 2}}}
	if a, _ := client(testMeta).Check(t, []turn.Output{said("a"), end}); a.Input != testMeta.InputTokens || a.Output != 2 {
		t.Errorf("%+v", a)
	}
}

// TestKeepalive: a line that changes nothing for its client.
func TestKeepalive(t *testing.T) {
	for _, generate := range []bool{false, true} {
		meta := testMeta
		meta.generate = generate
		b := begun(meta, nil)
		_, _ = b.Write(0, said("a")), b.Write(0, finished(turn.FinishStop))
		a, err := ollamacheck.Stream(string(b.Form().Line)+"\n"+string(b.JSON())+"\n", generate)
		if err != nil || a.Text != "a" || a.Thinking != "" {
			t.Errorf("%v %+v", err, a)
		}
	}
}

func TestStreamedEqualsWhole(t *testing.T) {
	outputs.StreamedEqualsWhole(t, 1000, func(r *rand.Rand) outputs.Client[*ollamacheck.Answer] {
		meta := testMeta
		meta.generate, meta.noThinking, meta.CallsInText = r.IntN(3) == 0, r.IntN(3) == 0, r.IntN(4) == 0
		if meta.generate {
			meta.CallsInText = true // a completion has no tools
		}
		return client(meta)
	}, "f")
}
