package aggregator

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestAC01_StreamingPartials(t *testing.T) {
	a := New(Options{})
	first := one(t, a.Ingest(0, []byte(itemAdded(0, 0, "fc_1", "call_1", "webSearch"))))
	if first.Name != "webSearch" || !first.First || first.Arguments != "" {
		t.Fatalf("the name alone: %+v", first)
	}
	for i, part := range []string{`{"q`, `uery":"`, `caddy"`} {
		d := one(t, a.Ingest(0, []byte(argumentsDelta(i+1, 0, "fc_1", part))))
		if d.ID != first.ID || d.First || d.Fragment != part {
			t.Fatalf("part %d: %+v", i, d)
		}
	}
	wantCalls(t, a, 0, "webSearch", `{"query":"caddy"`)
}

func TestAC04_MultiCallOrdering(t *testing.T) {
	a := New(Options{})
	deltas := feed(a, 0,
		itemAdded(0, 0, "fc_1", "call_1", "b"), itemAdded(1, 1, "fc_2", "call_2", "a"),
		argumentsDelta(2, 1, "fc_2", "2"), itemAdded(3, 2, "fc_3", "call_3", "b"),
		argumentsDelta(4, 0, "fc_1", "1"), argumentsDelta(5, 2, "fc_3", "3"))
	wantCalls(t, a, 0, "b", "1", "a", "2", "b", "3")
	wantFolded(t, a, 0, deltas)
	ids := map[string]bool{}
	for i, r := range a.Snapshot(0) {
		ids[r.ID] = true
		if r.BackendID != fmt.Sprintf("call_%d", i+1) {
			t.Errorf("call %d kept the backend's id %q", i, r.BackendID)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids are not distinct: %v", ids)
	}
}

func TestAC05_ChoiceAwareState(t *testing.T) {
	a := New(Options{})
	if a.HasCalls(0) {
		t.Fatal("a new aggregator has calls")
	}
	feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "first"), argumentsDelta(1, 0, "fc_1", "{}"))
	feed(a, 1, itemAdded(0, 0, "fc_1", "call_1", "second"), argumentsDelta(1, 0, "fc_1", "[]"))
	wantCalls(t, a, 0, "first", "{}")
	wantCalls(t, a, 1, "second", "[]")
	if a.HasCalls(2) || a.Snapshot(2) != nil {
		t.Error("a choice without events has calls")
	}
	// A chunk names its choices itself.
	chunk := object("object", "chat.completion.chunk", "choices", []any{
		raw(object("index", 1, "delta", raw(chatHead(0, "c", "chunked", "1")))),
		raw(object("index", 3, "delta", raw(chatHead(0, "c", "chunked", "3")))),
	})
	deltas := a.Ingest(0, []byte(chunk)).Deltas
	if len(deltas) != 2 || deltas[0].Choice != 1 || deltas[1].Choice != 3 {
		t.Fatalf("deltas of a chunk with two choices: %+v", deltas)
	}
	wantCalls(t, a, 0, "first", "{}")
	wantCalls(t, a, 1, "second", "[]", "chunked", "1")
	wantCalls(t, a, 3, "chunked", "3")
	a.ResetTurn()
	for choice := range 4 {
		if a.HasCalls(choice) {
			t.Errorf("choice %d has calls after ResetTurn", choice)
		}
	}
}

func TestAC09_IDStability(t *testing.T) {
	a := New(Options{})
	want := []string{"tool_2_0", "tool_2_1"}
	feed(a, 2, itemAdded(0, 0, "fc_1", "call_1", "f"))
	d := one(t, a.Ingest(2, []byte(chatHead(7, "call_2", "g", "{"))))
	if d.ID != want[1] || d.Index != 1 || d.BackendID != "call_2" {
		t.Fatalf("delta: %+v", d)
	}
	feed(a, 2, argumentsDelta(1, 0, "fc_1", "{}"), chatNext(7, "}"))
	for i, r := range a.Snapshot(2) {
		if r.ID != want[i] {
			t.Errorf("call %d has the id %q, want %q", i, r.ID, want[i])
		}
	}

	fixed := New(Options{IDSuffix: "k3v9"})
	if id := one(t, fixed.Ingest(0, []byte(chatHead(0, "c", "f", "")))).ID; id != "tool_0_0_k3v9" {
		t.Errorf("id with a suffix: %q", id)
	}
	fixed.ResetTurn()
	if id := one(t, fixed.Ingest(0, []byte(chatHead(0, "d", "f", "")))).ID; id != "tool_0_0_k3v9" {
		t.Errorf("ids begin again with the turn, got %q", id)
	}
}

func TestAC11_IdempotentDeltas(t *testing.T) {
	events := []string{
		itemAdded(0, 0, "fc_1", "call_1", "f"),
		argumentsDelta(1, 0, "fc_1", `{"s":"`),
		argumentsDelta(2, 0, "fc_1", "ll"),
		argumentsDelta(3, 0, "fc_1", "aa"),
		argumentsDelta(4, 0, "fc_1", "aa"), // another event with the same text
		argumentsDelta(5, 0, "fc_1", `"}`),
		argumentsDone(6, 0, "fc_1", "f", `{"s":"llaaaa"}`),
		itemDone(7, 0, "fc_1", "call_1", "f", `{"s":"llaaaa"}`),
	}
	a := New(Options{})
	for _, e := range events {
		a.Ingest(0, []byte(e))
		wantNothing(t, a.Ingest(0, []byte(e)))
	}
	for _, e := range events {
		wantNothing(t, a.Ingest(0, []byte(e)))
	}
	wantCalls(t, a, 0, "f", `{"s":"llaaaa"}`)
	// Only the call that changed is in the result.
	feed(a, 0, itemAdded(8, 1, "fc_2", "call_2", "g"))
	if d := one(t, a.Ingest(0, []byte(argumentsDelta(9, 1, "fc_2", "{")))); d.Name != "g" {
		t.Errorf("delta of another call: %+v", d)
	}
}

func TestAC12_NameFirstEmission(t *testing.T) {
	for shape, event := range map[string]string{
		"responses":     itemAdded(0, 0, "fc_1", "call_1", "f"),
		"app-server":    itemStarted("call_1", "f", `{"k":8}`),
		"tool_calls":    chatHead(0, "call_1", "f", ""),
		"function_call": object("function_call", raw(object("name", "f"))),
	} {
		arguments := ""
		if shape == "app-server" {
			arguments = `{"k":8}` // an object is all of them
		}
		d := one(t, New(Options{}).Ingest(0, []byte(event)))
		if d.ID != "tool_0_0" || d.Type != "function" || d.Name != "f" || d.Arguments != arguments || d.Fragment != arguments || !d.First {
			t.Errorf("%s: %+v", shape, d)
		}
	}
	// Fragments before the name wait, and come with it.
	a := New(Options{})
	wantNothing(t, a.Ingest(0, []byte(chatNext(0, `{"a"`))))
	if a.HasCalls(0) || a.Snapshot(0) != nil {
		t.Fatal("a call without a name shows")
	}
	d := one(t, a.Ingest(0, []byte(chatHead(0, "call_1", "f", ""))))
	if d.Arguments != `{"a"` || d.Fragment != `{"a"` || !d.First {
		t.Fatalf("the name behind a fragment: %+v", d)
	}
}

func TestAC13_NoCrossCallInterleaving(t *testing.T) {
	a := New(Options{})
	feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"), itemAdded(1, 1, "fc_2", "call_2", "f"),
		chatHead(0, "call_3", "f", ""), chatHead(1, "call_4", "f", ""))
	var want [4]strings.Builder
	for i := range 200 {
		part := string(rune('a' + i%26))
		switch i % 4 {
		case 0, 1:
			feed(a, 0, argumentsDelta(2+i, i%4, fmt.Sprintf("fc_%d", i%4+1), part))
		default:
			feed(a, 0, chatNext(i%4-2, part))
		}
		want[i%4].WriteString(part)
	}
	wantCalls(t, a, 0, "f", want[0].String(), "f", want[1].String(), "f", want[2].String(), "f", want[3].String())

	// Without any id the call created last is meant; without one, none is.
	b := New(Options{})
	noID := object("type", eventArgumentsDelta, "delta", "x")
	wantNothing(t, b.Ingest(0, []byte(noID)))
	feed(b, 0, itemAdded(0, 0, "fc_1", "call_1", "f"), itemAdded(1, 1, "fc_2", "call_2", "g"), noID)
	wantCalls(t, b, 0, "f", "", "g", "x")
}

func TestAC16_DuplicateAndUnknownEvents(t *testing.T) {
	a := New(Options{})
	feed(a, 0,
		`{"type":"response.output_text.delta","delta":"hello"}`,
		itemAdded(0, 0, "fc_1", "call_1", "f"),
		`{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"hi"}}`,
		itemAdded(0, 0, "fc_1", "call_1", "f"),
		argumentsDelta(1, 0, "fc_1", "{"),
		`{"type":"from.the.future","call_id":"call_1","arguments":"boom"}`,
		itemAdded(7, 0, "fc_1", "call_1", "f"), // announced again, under a new number
		argumentsDelta(8, 0, "fc_1", "}"))
	wantCalls(t, a, 0, "f", "{}")
	if got := a.Snapshot(0)[0]; got.Done {
		t.Error("a call without its done event is complete")
	}
	want := Stats{Events: 8, Unknown: 3, Duplicates: 2}
	if got := a.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	// After the end nothing is added.
	feed(a, 0, argumentsDone(9, 0, "fc_1", "f", "{}"))
	wantNothing(t, a.Ingest(0, []byte(argumentsDelta(10, 0, "fc_1", "!"))))
	wantCalls(t, a, 0, "f", "{}")
	if late := a.Stats().Late; late != 1 {
		t.Errorf("late fragments: %d", late)
	}
}

func TestAC17_CumulativeArguments(t *testing.T) {
	a := New(Options{})
	deltas := feed(a, 0, chatHead(0, "c", "f", `{"`), chatNext(0, "l"), chatNext(0, "l"), chatNext(0, "ll"),
		chatNext(0, "aa"), chatNext(0, "aa"), chatNext(0, `":1}`))
	var cumulative []string
	for _, d := range deltas {
		cumulative = append(cumulative, d.Arguments)
	}
	want := `{" {"l {"ll {"llll {"llllaa {"llllaaaa {"llllaaaa":1}`
	if got := strings.Join(cumulative, " "); got != want {
		t.Errorf("cumulative arguments:\n got %s\nwant %s", got, want)
	}
	wantFolded(t, a, 0, deltas)
}

func TestAC20_ResetTurn(t *testing.T) {
	a := New(Options{})
	must.OK(t, a.RegisterTextPattern("at", atPattern{}))
	feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"), argumentsDelta(5, 0, "fc_1", "old"))
	a.IngestEvent(1, 9, []byte(chatHead(0, "c", "g", "old")))
	a.ResetTurn()
	if a.HasCalls(0) || a.HasCalls(1) {
		t.Fatal("calls after ResetTurn")
	}
	if got := a.ExtractBlocks(`@f({})`); len(got) != 1 {
		t.Errorf("the text pattern is gone: %v", got)
	}
	// The same ids and numbers belong to new events now.
	feed(a, 0, itemAdded(0, 0, "fc_1", "call_1", "f"), argumentsDelta(1, 0, "fc_1", "new"))
	wantCalls(t, a, 0, "f", "new")
	if !a.IngestEvent(1, 1, []byte(chatHead(0, "c", "g", "new"))).Updated {
		t.Error("a position of the last turn counts in this one")
	}
}

func TestAC20_ConcurrentUse(t *testing.T) {
	const workers, parts = 8, 200
	shared := New(Options{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			id := fmt.Sprint("call_", w)
			own := New(Options{})
			for i := range parts {
				event := []byte(namedFragment(id, "f", fmt.Sprint(i)))
				shared.Ingest(0, event)
				own.Ingest(0, event)
				shared.Snapshot(0)
				shared.ExtractBlocks("<use_tool><name>f</name></use_tool>")
			}
			wantLen := len(own.Snapshot(0)[0].Function.Arguments)
			for _, r := range shared.Snapshot(0) {
				if r.BackendID == id && len(r.Function.Arguments) != wantLen {
					t.Errorf("%s has %d bytes, want %d", id, len(r.Function.Arguments), wantLen)
				}
			}
		})
	}
	wg.Wait()
	if got := len(shared.Snapshot(0)); got != workers {
		t.Errorf("%d calls, want %d", got, workers)
	}
}

func TestAC06_TextualFallback(t *testing.T) {
	a := New(Options{})
	first := "<use_tool>\n  <name>webSearch</name>\n  <args>{\"q\":\"obsidian copilot\",\"k\":8}</args>\n</use_tool>"
	second := "<use_tool><name> localSearch </name><query>größe</query><salientTerms>[\"a\"]</salientTerms></use_tool>"
	text := "Let me see – " + first + " noise <use_tools> <use_tool/> " + second + " tail"
	blocks := a.ExtractBlocks(text)
	if len(blocks) != 2 {
		t.Fatalf("blocks: %+v", blocks)
	}
	for i, want := range []struct{ block, name, arguments string }{
		{first, "webSearch", `{"q":"obsidian copilot","k":8}`},
		{second, "localSearch", `{"query":"größe","salientTerms":["a"]}`},
	} {
		b := blocks[i]
		if text[b.Start:b.End] != want.block || b.Name != want.name || b.Arguments != want.arguments || b.Pattern != UseToolPattern {
			t.Errorf("block %d: %+v", i, b)
		}
	}
	if tail := text[blocks[1].End:]; tail != " tail" {
		t.Errorf("tail %q", tail)
	}
	if a.HasCalls(0) {
		t.Error("extraction made calls")
	}
}

func TestAC06_RegisteredPatterns(t *testing.T) {
	a := New(Options{})
	for _, bad := range []NamedPattern{{"", atPattern{}}, {"at", nil}, {UseToolPattern, atPattern{}}, {"at", opener("")}} {
		if err := a.RegisterTextPattern(bad.Name, bad.Pattern); !errors.Is(err, ErrPattern) {
			t.Errorf("registering %q: %v", bad.Name, err)
		}
	}
	must.OK(t, a.RegisterTextPattern("at", atPattern{}))
	text := `@f({}) <use_tool><name>g</name><x>@inner(1)</x></use_tool> @h()`
	found := func(a *Aggregator, text string) string {
		var names []string
		for _, b := range a.ExtractBlocks(text) {
			names = append(names, b.Pattern+":"+b.Name)
		}
		return strings.Join(names, " ")
	}
	if got := found(a, text); got != "at:f use_tool:g at:h" {
		t.Errorf("blocks by every pattern, in order: %s", got)
	}
	if got := found(New(Options{}), text); got != "use_tool:g" {
		t.Errorf("another aggregator knows the pattern: %s", got)
	}
	// A pattern hides no <use_tool> block, not even one that begins within a block of its own.
	if got := found(a, `@f(<use_tool><name>g</name></use_tool>)`); got != "use_tool:g" {
		t.Errorf("overlapping blocks: %s", got)
	}
	// It can be replaced, and another one can be beside it.
	for name, p := range map[string]Pattern{"at": quoted{}, "tool_call": toolCall} {
		must.OK(t, a.RegisterTextPattern(name, p))
	}
	if got := found(a, "@f() «h» "+toolCallF); got != "at:h tool_call:f" {
		t.Errorf("after a replacement: %s", got)
	}
}

func TestAC06_SynthesizeCalls(t *testing.T) {
	a := New(Options{})
	must.OK(t, a.RegisterTextPattern("at", atPattern{}))
	block := "<use_tool><name>f</name><a>1</a></use_tool>"
	text := block + " and again " + block + " @g([])"
	message := []byte(object("role", "assistant", "content", text))
	wantNothing(t, a.IngestMessage(0, message))
	r := a.SynthesizeCalls(0, message)
	if len(r.Deltas) != 3 || !r.Deltas[2].Done {
		t.Fatalf("deltas: %+v", r.Deltas)
	}
	wantNothing(t, a.SynthesizeCalls(0, message))
	wantCalls(t, a, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`, "g", "[]")

	for form, m := range map[string]string{
		"content parts": object("role", "assistant", "content", []any{
			raw(object("type", "text", "text", "see "+block[:20])), raw(object("type", "output_text", "text", block[20:]))}),
		"agentMessage": object("type", "agentMessage", "id", "m1", "text", "see "+block),
		"notification": object("method", methodItemCompleted, "params", raw(object("item",
			raw(object("type", "agentMessage", "id", "m1", "text", "see "+block))))),
	} {
		b := New(Options{})
		one(t, b.SynthesizeCalls(0, []byte(m)))
		wantNothing(t, b.SynthesizeCalls(0, []byte(m)))
		wantCalls(t, b, 0, "f", `{"a":"1"}`)
		if t.Failed() {
			t.Fatal(form)
		}
	}

	// A block is the twin of one structured call at most, whichever comes first.
	c := New(Options{})
	feed(c, 0, rawItem("call_1", "f", `{"a":"1"}`))
	for range 2 {
		c.SynthesizeCalls(0, message)
		wantCalls(t, c, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)
	}
	wantNothing(t, c.Ingest(0, []byte(rawItem("call_2", "f", `{"a": 1}`))))
	feed(c, 0, rawItem("call_3", "f", `{"a": 1}`))
	wantCalls(t, c, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`, "f", `{"a": 1}`)

	// A call whose arguments come in fragments is the twin of a block behind it. Before it, only one
	// whose arguments come at once is: a first fragment has gone out before more is known.
	cutChat := []string{chatHead(0, "call_1", "f", `{"a":`), chatNext(0, `"1"`), chatNext(0, "}")}
	cutEvents := []string{itemAdded(1, 0, "fc_1", "call_1", "f"), argumentsDelta(2, 0, "fc_1", `{"a":"1`), argumentsDelta(3, 0, "fc_1", `"}`)}
	for _, fragments := range [][]string{cutChat, cutEvents, {cutEvents[0], threadFragment("call_1", `{"a":`), threadFragment("call_1", `"1"}`)}} {
		e := New(Options{})
		feed(e, 0, fragments...)
		wantNothing(t, e.SynthesizeCalls(0, []byte(object("type", "agentMessage", "id", "m", "text", block))))
		wantCalls(t, e, 0, "f", `{"a":"1"}`)
		feed(e, 0, itemDone(9, 0, "fc_1", "call_1", "f", `{"a":"1"}`)) // its end does not count it again
		e.SynthesizeCalls(0, []byte(object("type", "agentMessage", "id", "n", "text", block)))
		wantCalls(t, e, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)

		unfinished := New(Options{})
		feed(unfinished, 0, fragments[:2]...)
		unfinished.SynthesizeCalls(0, []byte(object("type", "agentMessage", "id", "m", "text", block)))
		if got := len(unfinished.Snapshot(0)); got != 2 {
			t.Errorf("%d calls of a block and of a call that may still become another", got)
		}

		before := New(Options{})
		before.SynthesizeCalls(0, []byte(object("type", "agentMessage", "id", "m", "text", block)))
		feed(before, 0, fragments...)
		wantCalls(t, before, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)
	}
	whole := New(Options{})
	whole.SynthesizeCalls(0, message)
	feed(whole, 0, chatHead(7, "call_7", "f", `{"a":"1"}`))
	wantCalls(t, whole, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)

	// Another message is known by its id, though its text be the same.
	d := New(Options{})
	for _, id := range []string{"m1", "m2", "m1"} {
		d.SynthesizeCalls(0, []byte(object("type", "agentMessage", "id", id, "text", block)))
	}
	wantCalls(t, d, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)

	// A structured call behind a textual one is a call of its own.
	feed(a, 0, chatHead(0, "call_9", "f", "{}"))
	wantCalls(t, a, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`, "g", "[]", "f", "{}")
}
