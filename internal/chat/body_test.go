package chat

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func bodyOf(t *testing.T, outs []turn.Output) *Encoder {
	t.Helper()
	return bodyOfAll(t, testMeta, alone(outs))
}

func bodyOfAll(t *testing.T, meta Meta, all []said) *Encoder {
	t.Helper()
	b := newBody(meta)
	for _, o := range append(all, late(0)...) {
		_ = b.Write(o.choice, o.out)
	}
	return b
}

func TestChatBody(t *testing.T) {
	body := func(message, reason string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion","created":42,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"message":` + message +
			`,"logprobs":null,"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,` +
			`"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}}`
	}
	for name, c := range map[string]struct {
		functions bool
		outs      []turn.Output
		want      string
	}{
		"text": {
			outs: []turn.Output{textOut("a\n"), textOut("a\n"), finishOut(turn.FinishStop)},
			want: body(`{"role":"assistant","content":"a\na\n","refusal":null,"annotations":[]}`, "stop"),
		},
		"nothing": {
			outs: []turn.Output{finishOut(turn.FinishLength)},
			want: body(`{"role":"assistant","content":"","refusal":null,"annotations":[]}`, "length"),
		},
		"calls alone": {
			outs: []turn.Output{
				callOut(0, "c0", "f", `{"a":1}`), callOut(1, "c1", "g", `{}`), finishOut(turn.FinishToolCalls),
			},
			want: body(`{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[`+
				`{"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},`+
				`{"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls"),
		},
		"everything": {
			outs: []turn.Output{reasoningOut("", "h"), reasoningOut("", "m"), textOut("ok"), callOut(0, "c", "f", ""), finishOut(turn.FinishToolCalls)},
			want: body(`{"role":"assistant","content":"ok","refusal":null,"annotations":[],"reasoning_content":"hm","tool_calls":[`+
				`{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`, "tool_calls"),
		},
		"a call of a function": {
			functions: true,
			outs:      []turn.Output{callOut(0, "c", "f", `{"a":1}`), finishOut(turn.FinishToolCalls)},
			want:      body(`{"role":"assistant","content":null,"refusal":null,"annotations":[],"function_call":{"name":"f","arguments":"{\"a\":1}"}}`, "function_call"),
		},
		"one of two calls of functions": {
			functions: true,
			outs:      []turn.Output{textOut("x"), callOut(0, "c", "f", ""), callOut(1, "d", "g", "{}"), finishOut(turn.FinishToolCalls)},
			want:      body(`{"role":"assistant","content":"x","refusal":null,"annotations":[],"function_call":{"name":"f","arguments":""}}`, "function_call"),
		},
		"no call of a function": {
			functions: true,
			outs:      []turn.Output{textOut("x"), finishOut(turn.FinishStop)},
			want:      body(`{"role":"assistant","content":"x","refusal":null,"annotations":[]}`, "stop"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta := testMeta
			meta.LegacyFunctions = c.functions
			if got := string(bodyOfAll(t, meta, alone(c.outs)).JSON()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestChatBodyChoices(t *testing.T) {
	meta := testMeta
	meta.Choices = 3
	b := bodyOfAll(t, meta, []said{
		{2, callOut(0, "c", "f", "{}")}, {1, textOut("b")}, {0, textOut("a")}, {1, finishOut(turn.FinishLength)},
		late(1)[0], {0, textOut("a")}, {2, finishOut(turn.FinishToolCalls)}, {0, finishOut(turn.FinishStop)},
	})
	want := `{"id":"chatcmpl-1","object":"chat.completion","created":42,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[` +
		`{"index":0,"message":{"role":"assistant","content":"aa","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"},` +
		`{"index":1,"message":{"role":"assistant","content":"b","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"length"},` +
		`{"index":2,"message":{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":21,"completion_tokens":15,"total_tokens":36,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":6}}}`
	if got := string(b.JSON()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
