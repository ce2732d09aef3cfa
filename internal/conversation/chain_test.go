package conversation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

var ann = Identity{User: "ann", Thread: codexrpc.ThreadStartParams{Model: "m", Config: codexrpc.Config{Own: map[string]any{"model_reasoning_effort": "low"}}}}

func items(t *testing.T, texts ...string) []json.RawMessage {
	t.Helper()
	out := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		if out[i] = json.RawMessage(text); !json.Valid(out[i]) {
			t.Fatalf("no JSON: %s", text)
		}
	}
	return out
}

func message(role, text string) string {
	return fmt.Sprintf(`{"type":"message","role":%q,"content":[{"type":"text","text":%q}]}`, role, text)
}

func call(id, name, arguments string) string {
	return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":%q}`, id, name, arguments)
}

func result(id, output string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, output)
}

func input(text string) []codexrpc.UserInput {
	return []codexrpc.UserInput{{Type: "text", Text: text}}
}

func chain(t *testing.T, id Identity, in []codexrpc.UserInput, history ...string) *Chain {
	t.Helper()
	c, err := NewChain(id, items(t, history...), in)
	must.OK(t, err)
	return c
}

// asked is the chain of a question that a call answers, as the client was given it.
func asked(t *testing.T, id Identity) Hash {
	t.Helper()
	a := &Answer{}
	a.Text("I look ")
	a.Text("it up.\n")
	a.Call("look", `{"q": "x", "n": 1.0}`)
	a.Call("look", ``)
	return chain(t, id, input("What?"), message("user", "Hi"), message("assistant", "Hello")).After(a)
}

// TestSameConversation sends an answer back in all the ways that clients do.
func TestSameConversation(t *testing.T) {
	want := asked(t, ann)
	before := []string{message("user", "Hi"), message("assistant", " Hello\n"), message("user", "What?")}
	for name, answer := range map[string][]string{
		"as it was":         {message("assistant", "I look it up.\n"), call("1", "look", `{"q": "x", "n": 1.0}`), call("2", "look", "{}")},
		"trimmed":           {message("assistant", "I look it up."), call("1", "look", `{"q":"x","n":1}`), call("2", "look", "{}")},
		"other order":       {message("assistant", "I look it up."), call("a", "look", `{"n":1,"q":"x"}`), call("b", "look", "{}")},
		"reasoning":         {`{"type":"reasoning","summary":[]}`, message("assistant", "I look it up."), call("1", "look", `{"q":"x","n":1}`), call("2", "look", "{}")},
		"in two parts":      {`{"type":"message","role":"assistant","content":[{"text":"I look"},{"text":" it up."}]}`, call("1", "look", `{"q":"x","n":1}`), call("2", "look", "{}")},
		"calls before text": {call("1", "look", `{"q":"x","n":1}`), message("assistant", "I look it up."), call("2", "look", "{}")},
	} {
		c := chain(t, ann, nil, append(append([]string{}, before...), append(answer, result("1", "r"))...)...)
		if len(c.Links) != 2 || c.Links[1].Hash != want {
			t.Errorf("%s: not the same", name)
			continue
		}
		if c.HasReasoning != (name == "reasoning") {
			t.Errorf("%s: has reasoning: %t", name, c.HasReasoning)
		}
		if at := c.Links[1]; at.Items != 3+len(answer) || len(at.Calls) != 2 {
			t.Errorf("%s: after %d items and with the calls %q", name, at.Items, at.Calls)
		}
	}
}

// TestOtherConversation changes each thing that matters.
func TestOtherConversation(t *testing.T) {
	type change func(history []string) (Identity, []string)
	replace := func(old, text string) change {
		return func(history []string) (Identity, []string) {
			for i := range history {
				history[i] = strings.Replace(history[i], old, text, 1)
			}
			return ann, history
		}
	}
	identity := func(f func(*Identity)) change {
		return func(history []string) (Identity, []string) {
			id := ann
			f(&id)
			return id, history
		}
	}
	for name, change := range map[string]change{
		"user":         identity(func(id *Identity) { id.User = "bob" }),
		"site":         identity(func(id *Identity) { id.Site = "b" }),
		"user as site": identity(func(id *Identity) { id.Site, id.User = "ann", "" }),
		"model":        identity(func(id *Identity) { id.Thread.Model = "n" }),
		"effort": identity(func(id *Identity) {
			id.Thread.Config = codexrpc.Config{Own: map[string]any{"model_reasoning_effort": "high"}}
		}),
		"tools":       identity(func(id *Identity) { id.Thread.DynamicTools = []codexrpc.DynamicTool{{Name: "look"}} }),
		"user's text": replace("What?", "What? "),
		"role":        replace(`"role":"user"`, `"role":"developer"`),
		"answer":      replace("look it", "look  it"),
		"argument":    replace(`\"x\"`, `\"y\"`),
		"integer":     replace(`:1.0}`, `:10}`),
		"tool":        replace(`"name":"look"`, `"name":"take"`),
		"order": func(history []string) (Identity, []string) {
			history[4], history[5] = history[5], history[4]
			return ann, history
		},
		"a call less": func(history []string) (Identity, []string) { return ann, history[:5] },
		"a part": func(history []string) (Identity, []string) {
			history[0] = `{"type":"message","role":"user","content":[{"text":"H"},{"text":"i"}]}`
			return ann, history
		},
	} {
		id, history := change([]string{message("user", "Hi"), message("assistant", "Hello"), message("user", "What?"),
			message("assistant", "I look it up."), call("1", "look", `{"q":"x","n":1.0}`), call("2", "look", "{}")})
		c := chain(t, id, nil, history...)
		if c.Links[len(c.Links)-1].Hash == asked(t, ann) {
			t.Errorf("%s: taken for the same", name)
		}
	}
}

// TestResultsOfCalls tells results apart by the calls that they answer.
func TestResultsOfCalls(t *testing.T) {
	of := func(results ...string) Hash {
		history := append([]string{message("user", "Hi"), call("1", "a", "{}"), call("2", "a", "{}")}, results...)
		return chain(t, ann, nil, append(history, message("assistant", "Well."))...).Links[1].Hash
	}
	if of(result("1", "x"), result("2", "y")) == of(result("2", "x"), result("1", "y")) {
		t.Error("results were exchanged")
	}
	if of(result("1", "x"), result("2", "y")) != of(result("1", "x"), `{"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"y"}]}`) {
		t.Error("a result as one part is another one")
	}
}

// TestAnyCut cuts the text of an answer in all ways.
func TestAnyCut(t *testing.T) {
	c := chain(t, ann, input("Hi"))
	rng := rand.New(rand.NewPCG(1, 2))
	const text = " \n a  b\n\n \tcé d \r\n"
	whole := &Answer{}
	whole.Text(strings.TrimSpace(text))
	for range 1000 {
		a, rest := &Answer{}, text
		for rest != "" {
			n := 1 + rng.IntN(len(rest))
			a.Text(rest[:n])
			rest = rest[n:]
		}
		if c.After(a) != c.After(whole) {
			t.Fatal("a cut text is another one")
		}
	}
	two, joined := &Answer{}, &Answer{}
	two.Text("a\n")
	two.Gap()
	two.Text("b")
	joined.Text("a\n\n\nb")
	if c.After(two) != c.After(joined) {
		t.Error("two messages are not the text that a client reads")
	}
}

func TestLargeIntegers(t *testing.T) {
	for _, pair := range [][2]string{{"9007199254740993", "9007199254740992"}, {`{"a":1}x`, `{"a":1}`}, {`"1"`, "1"}} {
		if canonicalArguments(pair[0]) == canonicalArguments(pair[1]) {
			t.Errorf("%s and %s are the same", pair[0], pair[1])
		}
	}
}

// TestLongTexts: a long text is copied once at most, to decode it.
func TestLongTexts(t *testing.T) {
	const size = 1 << 20
	history := items(t, message("user", strings.Repeat("a\n", size/2)), message("assistant", strings.Repeat("b", size)))
	in := input(strings.Repeat("c", size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := NewChain(ann, history, in)
	must.OK(t, err)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*size {
		t.Errorf("%d bytes were allocated for three texts of %d", got, size)
	}
}

// TestAnyEffort: where a model takes any effort, that tells no conversation from another, unless
// only one of them has an effort. The settings of the thread stay as they are.
func TestAnyEffort(t *testing.T) {
	with := func(effort string, free bool) Identity {
		own := map[string]any{"web_search": "disabled"}
		if effort != "" {
			own[codexrpc.EffortSetting] = effort
		}
		return Identity{User: "ann", Thread: codexrpc.ThreadStartParams{Model: "m", Config: codexrpc.Config{Own: own}}, EffortMayVary: free}
	}
	low := with("low", true)
	for name, c := range map[string]struct {
		other Identity
		same  bool
	}{
		"another":       {with("high", true), true},
		"none":          {with("", true), false},
		"another model": {with("high", false), false},
	} {
		if same := asked(t, low) == asked(t, c.other); same != c.same {
			t.Errorf("%s: the same: %t", name, same)
		}
	}
	if got := low.Thread.Config.Effort(); got != "low" {
		t.Errorf("the effort of the thread has become %q", got)
	}
}
