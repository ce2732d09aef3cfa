package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

var testMeta = Meta{Settings: prompt.Settings{Model: "m"}, ID: "chatcmpl-1", Created: 42, ServiceTier: "default", Fingerprint: "fp_1"}

var textOut, reasoningOut, callOut, finishOut = outputs.Text, outputs.Reasoning, outputs.Call, outputs.Finish

func newStream(meta Meta, emit func(data []byte) error) *Encoder {
	e := NewEncoder(meta)
	e.Begin(func(_ string, data []byte) error { return emit(data) })
	return e
}

func newBody(meta Meta) *Encoder {
	e := NewEncoder(meta)
	e.Begin(nil)
	return e
}

// write writes an output, or a failure as the gateway does.
func write(s *Encoder, choice int, out turn.Output) error {
	if out.Kind == turn.OutputFailure {
		return s.Fail(failures.APIError(out.Err))
	}
	return s.Write(choice, out)
}

func failureOut(err error) turn.Output { return turn.Output{Kind: turn.OutputFailure, Err: err} }

// said is an output of a choice.
type said struct {
	choice int
	out    turn.Output
}

func alone(outs []turn.Output) []said {
	all := make([]said, len(outs))
	for i, out := range outs {
		all[i] = said{0, out}
	}
	return all
}

// chunks are the frames that the outputs of a choice become.
func chunks(t *testing.T, meta Meta, outs []turn.Output) []string {
	t.Helper()
	return chunksOf(t, meta, alone(outs))
}

// chunksOf are the frames that the outputs of several choices become.
func chunksOf(t *testing.T, meta Meta, all []said) []string {
	t.Helper()
	var frames []string
	s := newStream(meta, func(data []byte) error {
		frames = append(frames, string(data))
		return nil
	})
	for _, o := range all {
		if s.Done() {
			t.Fatalf("done before %+v", o)
		}
		must.OK(t, write(s, o.choice, o.out))
	}
	if !s.Done() {
		t.Fatal("not done after the last output")
	}
	count := len(frames)
	for _, o := range append(late(0), said{0, failureOut(turn.ErrIdle)}) {
		if must.OK(t, write(s, o.choice, o.out)); len(frames) > count {
			t.Errorf("%+v after the end: %s", o, frames[count:])
		}
	}
	return frames
}

// late returns outputs that are ignored after the end of their choice.
func late(choice int) []said {
	return []said{{choice, textOut("late")}, {choice, callOut(9, "late", "late", "")}, {choice, finishOut(turn.FinishStop)}}
}

func TestChatStream(t *testing.T) {
	// chunk is a frame with the given choices.
	chunk := func(choices, more string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":42,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[` + choices + `]` + more + `}`
	}
	delta := func(d string) string { return chunk(`{"index":0,"delta":`+d+`,"finish_reason":null}`, "") }
	last := func(reason string) string { return chunk(`{"index":0,"delta":{},"finish_reason":"`+reason+`"}`, "") }
	role, roleNull := delta(`{"role":"assistant","content":""}`), delta(`{"role":"assistant","content":null}`)

	for name, c := range map[string]struct {
		usage  bool
		outs   []turn.Output
		frames []string
	}{
		"text": {
			outs:   []turn.Output{textOut("l"), textOut("l"), textOut("ll\n"), finishOut(turn.FinishStop)},
			frames: []string{role, delta(`{"content":"l"}`), delta(`{"content":"l"}`), delta(`{"content":"ll\n"}`), last("stop")},
		},
		"nothing": {
			outs:   []turn.Output{finishOut(turn.FinishStop)},
			frames: []string{role, last("stop")},
		},
		"empty pieces": {
			outs:   []turn.Output{textOut(""), reasoningOut("", ""), finishOut(turn.FinishContentFilter)},
			frames: []string{role, last("content_filter")},
		},
		"calls": {
			outs: []turn.Output{
				callOut(0, "c0", "f", `{"a":1}`), callOut(1, "c1", "g", "{}"), finishOut(turn.FinishToolCalls),
			},
			frames: []string{
				roleNull,
				delta(`{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`),
				delta(`{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"g","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`),
				last("tool_calls"),
			},
		},
		"reasoning, text, call": {
			outs: []turn.Output{reasoningOut("", "hm"), textOut("ok"), callOut(0, "c", "f", ""), finishOut(turn.FinishToolCalls)},
			frames: []string{
				role, delta(`{"reasoning_content":"hm"}`), delta(`{"content":"ok"}`),
				delta(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`),
				last("tool_calls"),
			},
		},
		"usage": {
			usage: true,
			outs:  []turn.Output{textOut("x"), finishOut(turn.FinishLength)},
			frames: []string{
				chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, `,"usage":null`),
				chunk(`{"index":0,"delta":{"content":"x"},"finish_reason":null}`, `,"usage":null`),
				chunk(`{"index":0,"delta":{},"finish_reason":"length"}`, `,"usage":null`),
				chunk(``, `,"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}`),
			},
		},
		"failure later": {
			usage: true,
			outs:  []turn.Output{textOut("x"), failureOut(turn.ErrIdle)},
			frames: []string{
				chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, `,"usage":null`),
				chunk(`{"index":0,"delta":{"content":"x"},"finish_reason":null}`, `,"usage":null`),
				`{"error":{"message":"codex sent nothing for the idle timeout","type":"server_error","param":null,"code":"codex_idle_timeout"}}`,
			},
		},
		"failure at once": {
			outs:   []turn.Output{failureOut(turn.ErrCompacted)},
			frames: []string{`{"error":{"message":"the conversation does not fit the model's context window","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta := testMeta
			meta.IncludeUsage = c.usage
			if got := chunks(t, meta, c.outs); !slices.Equal(got, c.frames) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.frames, "\n"))
			}
		})
	}
}

// TestChatStreamChoices: each choice begins and ends by itself, whatever the
// others do, and the usage of all comes last.
func TestChatStreamChoices(t *testing.T) {
	chunk := func(choices, usage string) string {
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":42,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[` + choices + `],"usage":` + usage + `}`
	}
	delta := func(choice, d string) string {
		return chunk(`{"index":`+choice+`,"delta":`+d+`,"finish_reason":null}`, "null")
	}
	last := func(choice, reason string) string {
		return chunk(`{"index":`+choice+`,"delta":{},"finish_reason":"`+reason+`"}`, "null")
	}
	role, roleNull := `{"role":"assistant","content":""}`, `{"role":"assistant","content":null}`
	for name, c := range map[string]struct {
		legacy bool
		all    []said
		frames []string
	}{
		"interleaved": {
			all: slices.Concat(
				[]said{{1, textOut("b")}, {0, textOut("a")}, {1, finishOut(turn.FinishLength)}, {2, callOut(0, "c", "f", "{}")}}, late(1),
				[]said{{0, textOut("a")}, {2, callOut(1, "d", "g", "")}, {2, finishOut(turn.FinishToolCalls)}}, late(2), []said{{0, finishOut(turn.FinishStop)}},
			),
			frames: []string{
				delta("1", role), delta("1", `{"content":"b"}`), delta("0", role), delta("0", `{"content":"a"}`), last("1", "length"),
				delta("2", roleNull), delta("2", `{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`),
				delta("2", `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`),
				delta("0", `{"content":"a"}`), delta("2", `{"tool_calls":[{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":""}}]}`),
				last("2", "tool_calls"), last("0", "stop"),
				chunk(``, `{"prompt_tokens":21,"completion_tokens":15,"total_tokens":36,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":6}}`),
			},
		},
		"a failure": {
			all: []said{{1, textOut("b")}, {2, finishOut(turn.FinishStop)}, {1, failureOut(turn.ErrIdle)}},
			frames: []string{
				delta("1", role), delta("1", `{"content":"b"}`), delta("2", role), last("2", "stop"), string(failures.APIError(turn.ErrIdle).Body()),
			},
		},
		"functions": {
			legacy: true,
			all: []said{
				{0, callOut(0, "c", "f", `{"a":1}`)}, {1, textOut("b")}, {1, callOut(0, "c", "g", "")},
				{0, callOut(1, "d", "h", "{}")}, {0, finishOut(turn.FinishToolCalls)}, {1, finishOut(turn.FinishLength)}, {2, finishOut(turn.FinishStop)},
			},
			frames: []string{
				delta("0", roleNull), delta("0", `{"function_call":{"name":"f","arguments":""}}`), delta("0", `{"function_call":{"arguments":"{\"a\":1}"}}`),
				delta("1", role), delta("1", `{"content":"b"}`), delta("1", `{"function_call":{"name":"g","arguments":""}}`),
				last("0", "function_call"), last("1", "length"), delta("2", role), last("2", "stop"),
				chunk(``, `{"prompt_tokens":21,"completion_tokens":15,"total_tokens":36,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":6}}`),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta := testMeta
			meta.IncludeUsage, meta.Choices, meta.LegacyFunctions = true, 3, c.legacy
			if got := chunksOf(t, meta, c.all); !slices.Equal(got, c.frames) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.frames, "\n"))
			}
		})
	}
}

func TestChatStreamEmitFails(t *testing.T) {
	gone := errors.New("the client has gone")
	for fails := range 4 {
		count := 0
		meta := testMeta
		meta.IncludeUsage = true
		s := newStream(meta, func([]byte) error {
			if count++; count > fails {
				return gone
			}
			return nil
		})
		var err error
		for _, out := range []turn.Output{textOut("x"), finishOut(turn.FinishStop), textOut("y")} {
			err = s.Write(0, out)
		}
		if !errors.Is(err, gone) || s.Done() || count != fails+1 {
			t.Errorf("failing from frame %d: %v, done %v, %d frames tried", fails, err, s.Done(), count)
		}
	}
}

// TestEstimatedUsage: usage that was counted here says so, whichever choice it is of.
func TestEstimatedUsage(t *testing.T) {
	for _, estimated := range []bool{false, true} {
		var chunks strings.Builder
		meta := Meta{Settings: prompt.Settings{Choices: 2, IncludeUsage: true}}
		body, stream := newBody(meta), newStream(meta, func(data []byte) error {
			chunks.Write(data)
			return nil
		})
		for choice := range 2 {
			end := turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishToolCalls, Usage: outputs.Usage, Estimated: estimated && choice == 0}}
			_ = body.Write(choice, end)
			must.OK(t, stream.Write(choice, end))
		}
		for form, text := range map[string]string{"body": string(body.JSON()), "stream": chunks.String()} {
			if strings.Contains(text, `"estimated":true`) != estimated {
				t.Errorf("%s, estimated %t: %s", form, estimated, text)
			}
		}
	}
}
