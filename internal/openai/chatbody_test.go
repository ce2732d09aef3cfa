package openai

import (
	"errors"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func bodyOf(t *testing.T, outs []turn.Output) *ChatBody {
	t.Helper()
	b := NewChatBody(testMeta)
	for _, out := range outs {
		if b.Done() {
			t.Fatalf("done before %+v", out)
		}
		b.Add(0, out)
	}
	if !b.Done() {
		t.Fatal("not done after the last output")
	}
	return b
}

func TestChatBody(t *testing.T) {
	body := func(message, reason string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion","created":42,"model":"m","choices":[{"index":0,"message":` + message +
			`,"logprobs":null,"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,` +
			`"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}`
	}
	for name, c := range map[string]struct {
		outs  []turn.Output
		want  string
		calls int
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
				startOut(0, "c0", "f"), argumentsOut(0, "c0", `{"a"`), startOut(1, "c1", "g"), argumentsOut(0, "c0", `:1}`),
				endOut(0, "c0"), argumentsOut(1, "c1", `{}`), endOut(1, "c1"), finishOut(turn.FinishToolCalls),
			},
			want: body(`{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[`+
				`{"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},`+
				`{"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls"),
			calls: 2,
		},
		"everything": {
			outs: []turn.Output{reasoningOut("h"), reasoningOut("m"), textOut("ok"), startOut(0, "c", "f"), endOut(0, "c"), finishOut(turn.FinishToolCalls)},
			want: body(`{"role":"assistant","content":"ok","refusal":null,"annotations":[],"reasoning_content":"hm","tool_calls":[`+
				`{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`, "tool_calls"),
			calls: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bodyOf(t, c.outs)
			if got := string(b.JSON()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if b.Failure() != nil || b.Calls() != c.calls {
				t.Errorf("failure %v, %d calls", b.Failure(), b.Calls())
			}
		})
	}
}

func TestChatBodyFailure(t *testing.T) {
	b := bodyOf(t, []turn.Output{textOut("x"), failureOut(turn.ErrInterrupted)})
	if !errors.Is(b.Failure(), turn.ErrInterrupted) {
		t.Errorf("failure %v", b.Failure())
	}
}

func TestChatBodyAfterTheEnd(t *testing.T) {
	b := bodyOf(t, []turn.Output{textOut("x"), finishOut(turn.FinishStop)})
	before := string(b.JSON())
	for _, out := range []turn.Output{textOut("y"), startOut(0, "c", "f"), failureOut(turn.ErrIdle)} {
		b.Add(0, out)
	}
	if got := string(b.JSON()); got != before || b.Failure() != nil {
		t.Errorf("the body became\n%s", got)
	}
}

func TestChatBodyStrayArguments(t *testing.T) {
	b := bodyOf(t, []turn.Output{argumentsOut(3, "c", "{}"), textOut("x"), finishOut(turn.FinishStop)})
	if b.Calls() != 0 {
		t.Errorf("%d calls", b.Calls())
	}
}
