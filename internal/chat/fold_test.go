package chat

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	sdk "github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
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

type wireMessage struct {
	Role         string     `json:"role"`
	Content      *string    `json:"content"`
	Reasoning    string     `json:"reasoning_content"`
	ToolCalls    []wireCall `json:"tool_calls"`
	FunctionCall *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function_call"`
}

func (m *wireMessage) add(delta wireMessage) {
	if delta.Role != "" {
		m.Role = delta.Role
	}
	if delta.Content != nil && m.Content == nil {
		m.Content = new(string)
	}
	if delta.Content != nil {
		*m.Content += *delta.Content
	}
	m.Reasoning += delta.Reasoning
	for _, call := range delta.ToolCalls {
		if call.ID != "" {
			m.ToolCalls = append(m.ToolCalls, call)
			continue
		}
		m.ToolCalls[call.Index].Function.Arguments += call.Function.Arguments
	}
	switch {
	case delta.FunctionCall == nil:
	case m.FunctionCall == nil:
		m.FunctionCall = delta.FunctionCall
	default:
		m.FunctionCall.Name += delta.FunctionCall.Name
		m.FunctionCall.Arguments += delta.FunctionCall.Arguments
	}
}

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

// folded is what a client knows in the end.
type folded struct {
	id, model, usage string
	created          int64
	choices          []foldedChoice
}

// foldedChoice is a choice of it.
type foldedChoice struct {
	finish  string
	message wireMessage
}

func parseWire(t *testing.T, data []byte) (c wireCompletion) {
	t.Helper()
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatalf("%s\n%v", data, err)
	}
	return c
}

// foldChunks is a client: it puts the deltas of each choice together.
func foldChunks(t *testing.T, choices int, frames []string) folded {
	t.Helper()
	all := folded{choices: make([]foldedChoice, choices)}
	for i, frame := range frames {
		c := parseWire(t, []byte(frame))
		if i == 0 {
			all.id, all.model, all.created = c.ID, c.Model, c.Created
		}
		if c.Object != "chat.completion.chunk" || c.ID != all.id || c.Model != all.model || c.Created != all.created {
			t.Fatalf("frame %d: %s", i, frame)
		}
		if len(c.Choices) == 0 {
			if i != len(frames)-1 {
				t.Fatalf("frame %d of %d is the usage", i, len(frames))
			}
			all.usage = string(c.Usage)
			continue
		}
		chunk := c.Choices[0]
		a := &all.choices[chunk.Index]
		if len(c.Choices) != 1 || a.finish != "" || (chunk.Delta.Role == "assistant") != (a.message.Role == "") {
			t.Fatalf("frame %d: %s after %+v", i, frame, a)
		}
		a.message.add(chunk.Delta)
		a.finish = chunk.FinishReason
	}
	for i := range all.choices {
		m := &all.choices[i].message
		if m.Content != nil && *m.Content == "" && (m.ToolCalls != nil || m.FunctionCall != nil) {
			m.Content = nil // as the SDKs do
		}
	}
	return all
}

func parseBody(t *testing.T, data []byte) folded {
	t.Helper()
	c := parseWire(t, data)
	all := folded{id: c.ID, model: c.Model, created: c.Created, usage: string(c.Usage)}
	for i, choice := range c.Choices {
		if choice.Index != i {
			t.Fatalf("choice %d has the index %d", i, choice.Index)
		}
		for k := range choice.Message.ToolCalls {
			choice.Message.ToolCalls[k].Index = k
		}
		all.choices = append(all.choices, foldedChoice{choice.FinishReason, choice.Message})
	}
	return all
}

// checkFold compares the answer that a client puts together from a stream with the body.
func checkFold(t *testing.T, meta Meta, all []said) folded {
	t.Helper()
	whole, frames, body := fold(t, meta, all)
	checkAccumulator(t, frames, body)
	return whole
}

// fold is checkFold without OpenAI's client library, which is slow.
func fold(t *testing.T, meta Meta, all []said) (whole folded, frames []string, body []byte) {
	t.Helper()
	meta.IncludeUsage = true
	frames, body = chunksOf(t, meta, all), bodyOfAll(t, meta, all).JSON()
	whole = parseBody(t, body)
	if streamed := foldChunks(t, max(1, meta.Choices), frames); !reflect.DeepEqual(streamed, whole) {
		t.Errorf("%+v\nstreamed %+v\nwhole    %+v", all, streamed, whole)
	}
	return whole, frames, body
}

// checkAccumulator does the same with OpenAI's own client library, which does
// not put function_call together.
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
	if acc.ID != whole.ID || acc.Model != whole.Model || acc.Created != whole.Created || len(acc.Choices) != len(whole.Choices) ||
		acc.Usage.TotalTokens != whole.Usage.TotalTokens || acc.Usage.PromptTokens != whole.Usage.PromptTokens ||
		acc.Usage.CompletionTokens != whole.Usage.CompletionTokens {
		t.Fatalf("accumulated %+v\nwhole %+v", acc.ChatCompletion, whole)
	}
	for i := range whole.Choices {
		checkAccumulated(t, acc.Choices[i], whole.Choices[i])
	}
}

func checkAccumulated(t *testing.T, got, want sdk.ChatCompletionChoice) {
	t.Helper()
	if got.Index != want.Index || got.FinishReason != want.FinishReason || got.Message.Content != want.Message.Content ||
		got.Message.Role != want.Message.Role || len(got.Message.ToolCalls) != len(want.Message.ToolCalls) {
		t.Fatalf("accumulated %+v\nwhole %+v", got, want)
	}
	for i, call := range got.Message.ToolCalls {
		other := want.Message.ToolCalls[i]
		if call.ID != other.ID || call.Function.Name != other.Function.Name || call.Function.Arguments != other.Function.Arguments {
			t.Errorf("call %d: accumulated %+v, whole %+v", i, call, other)
		}
	}
}

// TestStreamFoldsToBody: streamed and whole are the same, whatever a turn says and however it is cut.
func TestStreamFoldsToBody(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		outs := outputs.Random(r, "f", "g")
		one, many := checkFold(t, testMeta, alone(outs)), checkFold(t, testMeta, alone(outputs.Cut(r, outs)))
		if !reflect.DeepEqual(one, many) {
			t.Errorf("whole %+v\ncut   %+v", one, many)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// interleave puts the outputs of several turns into one random order that keeps
// those of each turn in theirs.
func interleave(r *rand.Rand, turns [][]turn.Output) []said {
	var all []said
	var left []int // the choice of each output that is still to come
	for choice, outs := range turns {
		for range outs {
			left = append(left, choice)
		}
	}
	r.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
	next := make([]int, len(turns))
	for _, choice := range left {
		all = append(all, said{choice, turns[choice][next[choice]]})
		next[choice]++
	}
	return all
}

// TestChoicesFoldToBody: however the choices' outputs come, streamed and whole
// are the same, and each choice is what it would be alone.
func TestChoicesFoldToBody(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		meta := testMeta
		meta.Choices, meta.LegacyFunctions = 1+r.IntN(maxChoices), r.IntN(4) == 0
		turns := make([][]turn.Output, meta.Choices)
		for i := range turns {
			turns[i] = outputs.Random(r, "f", "g")
		}
		together := checkFold(t, meta, interleave(r, turns))
		single := meta
		single.Choices = 0
		for i, outs := range turns {
			if apart, _, _ := fold(t, single, alone(outs)); !reflect.DeepEqual(together.choices[i], apart.choices[0]) {
				t.Errorf("choice %d of %d: %+v\nalone %+v", i, meta.Choices, together.choices[i], apart.choices[0])
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzStreamFold lets a turn say anything: what a client puts together must neither depend on how it is
// cut nor differ from the body.
func FuzzStreamFold(f *testing.F) {
	f.Add("héllo\u2028\"", "hm 😀", `{"a":"ü"}`, uint64(2))
	f.Add("\xff\xf0\x9f", "", "\x00", uint64(1))
	f.Add("", "x", "", uint64(0))
	f.Fuzz(func(t *testing.T, text, reasoning, arguments string, seed uint64) {
		outs := []turn.Output{reasoningOut("", reasoning), textOut(text), callOut(0, "c", "f", arguments), finishOut(turn.FinishToolCalls)}
		one, many := checkFold(t, testMeta, alone(outs)), checkFold(t, testMeta, alone(outputs.Cut(rand.New(rand.NewPCG(seed, 1)), outs)))
		if !reflect.DeepEqual(one, many) {
			t.Errorf("whole %+v\ncut   %+v", one, many)
		}
		message := one.choices[0].message
		if got := message.Reasoning; got != string([]rune(reasoning)) {
			t.Errorf("reasoning %q became %q", reasoning, got)
		}
		if got := message.ToolCalls[0].Function.Arguments; got != string([]rune(arguments)) {
			t.Errorf("arguments %q became %q", arguments, got)
		}
	})
}
