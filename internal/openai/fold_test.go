package openai

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	sdk "github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// wireCall is a tool call as it comes out of a body or of folded chunks.
type wireCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// wireMessage is a message of a body, or the delta of a chunk.
type wireMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content"`
	ToolCalls []wireCall `json:"tool_calls"`
}

// wireCompletion is a body or a chunk.
type wireCompletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int         `json:"index"`
		Message      wireMessage `json:"message"`
		Delta        wireMessage `json:"delta"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// answer is what a client knows in the end.
type answer struct {
	id, model, finish, usage string
	created                  int64
	message                  wireMessage
}

func parseWire(t *testing.T, data []byte) (c wireCompletion) {
	t.Helper()
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatalf("%s\n%v", data, err)
	}
	return c
}

// foldChunks is a client: it puts the deltas together.
func foldChunks(t *testing.T, frames []string) answer {
	t.Helper()
	var a answer
	var text string
	for i, frame := range frames {
		c := parseWire(t, []byte(frame))
		if i == 0 {
			a.id, a.model, a.created = c.ID, c.Model, c.Created
		}
		if c.Object != "chat.completion.chunk" || c.ID != a.id || c.Model != a.model || c.Created != a.created {
			t.Fatalf("frame %d: %s", i, frame)
		}
		if len(c.Choices) == 0 {
			a.usage = string(c.Usage)
			continue
		}
		delta := c.Choices[0].Delta
		if (delta.Role == "assistant") != (i == 0) {
			t.Fatalf("frame %d has the role %q", i, delta.Role)
		}
		if delta.Content != nil {
			text += *delta.Content
		}
		a.message.Reasoning += delta.Reasoning
		for _, call := range delta.ToolCalls {
			if call.ID != "" {
				a.message.ToolCalls = append(a.message.ToolCalls, call)
				continue
			}
			a.message.ToolCalls[call.Index].Function.Arguments += call.Function.Arguments
		}
		a.finish += c.Choices[0].FinishReason
	}
	a.message.Role = "assistant"
	if text != "" || a.message.ToolCalls == nil {
		a.message.Content = &text
	}
	return a
}

func parseBody(t *testing.T, data []byte) answer {
	t.Helper()
	c := parseWire(t, data)
	a := answer{id: c.ID, model: c.Model, created: c.Created, usage: string(c.Usage)}
	a.message, a.finish = c.Choices[0].Message, c.Choices[0].FinishReason
	for i := range a.message.ToolCalls {
		a.message.ToolCalls[i].Index = i
	}
	return a
}

// checkFold compares what a client of the stream gets with the body.
func checkFold(t *testing.T, outs []turn.Output) {
	t.Helper()
	meta := testMeta
	meta.IncludeUsage = true
	frames := chunks(t, meta, outs)
	body := bodyOf(t, outs).JSON()
	streamed, whole := foldChunks(t, frames), parseBody(t, body)
	if !reflect.DeepEqual(streamed, whole) {
		t.Errorf("%+v\nstreamed %+v\nwhole    %+v", outs, streamed, whole)
	}
	checkAccumulator(t, frames, body)
}

// checkAccumulator does the same with OpenAI's own client library.
func checkAccumulator(t *testing.T, frames []string, body []byte) {
	t.Helper()
	var acc sdk.ChatCompletionAccumulator
	for _, frame := range frames {
		var chunk sdk.ChatCompletionChunk
		if err := json.Unmarshal([]byte(frame), &chunk); err != nil {
			t.Fatalf("%s\n%v", frame, err)
		}
		if !acc.AddChunk(chunk) {
			t.Fatalf("the accumulator refuses %s", frame)
		}
	}
	var whole sdk.ChatCompletion
	if err := json.Unmarshal(body, &whole); err != nil {
		t.Fatalf("%s\n%v", body, err)
	}
	got, want := acc.Choices[0], whole.Choices[0]
	if acc.ID != whole.ID || acc.Model != whole.Model || acc.Created != whole.Created ||
		got.FinishReason != want.FinishReason || got.Message.Content != want.Message.Content ||
		got.Message.Role != want.Message.Role || len(got.Message.ToolCalls) != len(want.Message.ToolCalls) ||
		acc.Usage.TotalTokens != whole.Usage.TotalTokens || acc.Usage.PromptTokens != whole.Usage.PromptTokens ||
		acc.Usage.CompletionTokens != whole.Usage.CompletionTokens {
		t.Fatalf("accumulated %+v\nwhole %+v", acc.ChatCompletion, whole)
	}
	for i, call := range got.Message.ToolCalls {
		other := want.Message.ToolCalls[i]
		if call.ID != other.ID || call.Function.Name != other.Function.Name || call.Function.Arguments != other.Function.Arguments {
			t.Errorf("call %d: accumulated %+v, whole %+v", i, call, other)
		}
	}
}

// pieces are texts that have broken encoders.
var pieces = []string{
	"", "l", "l", "ll", "aa", " ", "\n", "\r\n", "\"", "\\", "\x00", "\x1f", "\x7f", "\u2028", "ü", "😀", "\xff", "\xf0\x9f",
	"<use_tool>", "</script>", "data: [DONE]", `{"a":1}`, "\ufeff", "\ufffd", "a longer piece of quite ordinary text",
}

func randomText(r *rand.Rand) string {
	s := ""
	for range r.IntN(4) {
		s += pieces[r.IntN(len(pieces))]
	}
	return s
}

// randomOutputs is a turn that says anything a turn may say, in any order.
func randomOutputs(r *rand.Rand) []turn.Output {
	var outs []turn.Output
	calls := 0
	id := func(call int) string { return "call_" + string(rune('a'+call)) }
	for range r.IntN(20) {
		switch r.IntN(5) {
		case 0, 1:
			outs = append(outs, textOut(randomText(r)))
		case 2:
			outs = append(outs, reasoningOut(randomText(r)))
		case 3:
			outs = append(outs, startOut(calls, id(calls), "tool-"+id(calls)))
			calls++
		case 4:
			if calls > 0 {
				call := r.IntN(calls)
				outs = append(outs, argumentsOut(call, id(call), randomText(r)))
			}
		}
	}
	reasons := []turn.FinishReason{turn.FinishStop, turn.FinishLength, turn.FinishToolCalls, turn.FinishContentFilter}
	return append(outs, finishOut(reasons[r.IntN(len(reasons))]))
}

func TestStreamFoldsToBody(t *testing.T) {
	for seed := range uint64(1000) {
		checkFold(t, randomOutputs(rand.New(rand.NewPCG(seed, 1))))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// cut divides a text after each byte count in sizes, going round; cuts within a
// character move behind it, as a turn never gives half of one.
func cut(text string, sizes []byte) []string {
	var parts []string
	for i := 0; text != ""; i++ {
		size := 1
		if len(sizes) > 0 {
			size = int(sizes[i%len(sizes)])%64 + 1
		}
		size = min(size, len(text))
		for size < len(text) && text[size]&0xc0 == 0x80 {
			size++
		}
		parts = append(parts, text[:size])
		text = text[size:]
	}
	return parts
}

// FuzzStreamFold cuts an answer in any way: what a client puts together must
// neither depend on it nor differ from the body.
func FuzzStreamFold(f *testing.F) {
	f.Add("héllo\u2028\"", "hm 😀", `{"a":"ü"}`, []byte{0, 2})
	f.Add("\xff\xf0\x9f", "", "\x00", []byte{1})
	f.Add("", "x", "", []byte{})
	f.Fuzz(func(t *testing.T, text, reasoning, arguments string, sizes []byte) {
		whole := []turn.Output{reasoningOut(reasoning), textOut(text), startOut(0, "c", "f"), argumentsOut(0, "c", arguments), endOut(0, "c"), finishOut(turn.FinishToolCalls)}
		var parts []turn.Output
		for _, s := range cut(reasoning, sizes) {
			parts = append(parts, reasoningOut(s))
		}
		for _, s := range cut(text, sizes) {
			parts = append(parts, textOut(s))
		}
		parts = append(parts, startOut(0, "c", "f"))
		for _, s := range cut(arguments, sizes) {
			parts = append(parts, argumentsOut(0, "c", s))
		}
		parts = append(parts, endOut(0, "c"), finishOut(turn.FinishToolCalls))
		checkFold(t, whole)
		checkFold(t, parts)
		meta := testMeta
		meta.IncludeUsage = true
		one, many := foldChunks(t, chunks(t, meta, whole)), foldChunks(t, chunks(t, meta, parts))
		if !reflect.DeepEqual(one, many) {
			t.Errorf("whole %+v\ncut   %+v", one, many)
		}
		if got := one.message.Reasoning; got != asRead(reasoning) {
			t.Errorf("reasoning %q became %q", reasoning, got)
		}
		if got := one.message.ToolCalls[0].Function.Arguments; got != asRead(arguments) {
			t.Errorf("arguments %q became %q", arguments, got)
		}
	})
}
