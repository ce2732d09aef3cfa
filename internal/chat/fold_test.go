package chat

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	sdk "github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/api"
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
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// folded is what a client knows in the end.
type folded struct {
	id, model, usage string
	failure          string // that ended the stream
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
func foldChunks(t *testing.T, choices int, events []outputs.Event) folded {
	t.Helper()
	all := folded{choices: make([]foldedChoice, choices)}
	for i, e := range events {
		c, frame := parseWire(t, e.Data), e.Data
		if c.Error.Message != "" && i == len(events)-1 {
			all.failure = c.Error.Message
			continue
		}
		if i == 0 {
			all.id, all.model, all.created = c.ID, c.Model, c.Created
		}
		if c.Object != "chat.completion.chunk" || c.ID != all.id || c.Model != all.model || c.Created != all.created {
			t.Fatalf("frame %d: %s", i, frame)
		}
		if len(c.Choices) == 0 {
			if i != len(events)-1 {
				t.Fatalf("frame %d of %d is the usage", i, len(events))
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

// client is a strict one.
func client(t *testing.T, meta Meta) outputs.Client[folded] {
	meta.IncludeUsage = true
	return outputs.Client[folded]{
		Encoder: func() api.Encoder { return NewEncoder(meta) },
		Stream: func(events []outputs.Event) (folded, error) {
			return foldChunks(t, max(1, meta.Choices), events), nil
		},
		Whole: func(body []byte) (folded, error) { return parseBody(t, body), nil },
	}
}

// clientAndSDK reads the same with OpenAI's own client library, which is slow.
func clientAndSDK(t *testing.T, meta Meta) outputs.Client[folded] {
	var streamed []outputs.Event
	c := client(t, meta)
	read, readBody := c.Stream, c.Whole
	c.Stream = func(events []outputs.Event) (folded, error) { streamed = events; return read(events) }
	c.Whole = func(body []byte) (folded, error) { checkAccumulator(t, streamed, body); return readBody(body) }
	return c
}

// checkAccumulator compares what the library has of a stream and of the body. It does not put
// function_call together.
func checkAccumulator(t *testing.T, events []outputs.Event, body []byte) {
	t.Helper()
	var acc sdk.ChatCompletionAccumulator
	for _, e := range events {
		var chunk sdk.ChatCompletionChunk
		if err := json.Unmarshal(e.Data, &chunk); err != nil {
			t.Fatalf("%s\n%v", e.Data, err)
		}
		if !acc.AddChunk(chunk) {
			t.Fatalf("the accumulator refuses %s", e.Data)
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

func TestStreamedEqualsWhole(t *testing.T) {
	c := clientAndSDK(t, testMeta)
	outputs.StreamedEqualsWhole(t, 300, func(*rand.Rand) outputs.Client[folded] { return c }, "f", "g")
}

// interleave puts the outputs of several turns into one random order that keeps
// those of each turn in theirs, and returns the choice of each.
func interleave(r *rand.Rand, turns [][]turn.Output) (all []turn.Output, choices []int) {
	for choice, outs := range turns {
		for range outs {
			choices = append(choices, choice)
		}
	}
	r.Shuffle(len(choices), func(i, k int) { choices[i], choices[k] = choices[k], choices[i] })
	next := make([]int, len(turns))
	for _, choice := range choices {
		all = append(all, turns[choice][next[choice]])
		next[choice]++
	}
	return all, choices
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
		c := clientAndSDK(t, meta)
		var all []turn.Output
		all, c.Choices = interleave(r, turns)
		together, _ := c.Check(t, all)
		single := meta
		single.Choices = 0
		for i, outs := range turns {
			if apart, _ := client(t, single).Check(t, outs); !reflect.DeepEqual(together.choices[i], apart.choices[0]) {
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
		one := clientAndSDK(t, testMeta).CheckCut(t, rand.New(rand.NewPCG(seed, 1)), outs)
		message := one.choices[0].message
		if got := message.Reasoning; got != string([]rune(reasoning)) {
			t.Errorf("reasoning %q became %q", reasoning, got)
		}
		if got := message.ToolCalls[0].Function.Arguments; got != string([]rune(arguments)) {
			t.Errorf("arguments %q became %q", arguments, got)
		}
	})
}
