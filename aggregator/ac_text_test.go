package aggregator

import (
	"errors"
	"strings"
	"testing"
)

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
	if err := a.RegisterTextPattern("at", atPattern{}); err != nil {
		t.Fatal(err)
	}
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
	// A pattern hides no <use_tool> block, not even one that begins within a block of
	// its own.
	if got := found(a, `@f(<use_tool><name>g</name></use_tool>)`); got != "use_tool:g" {
		t.Errorf("overlapping blocks: %s", got)
	}
	// It can be replaced, and another one can be beside it.
	for name, p := range map[string]Pattern{"at": quoted{}, "tool_call": toolCall} {
		if err := a.RegisterTextPattern(name, p); err != nil {
			t.Fatal(err)
		}
	}
	if got := found(a, "@f() «h» "+toolCallF); got != "at:h tool_call:f" {
		t.Errorf("after a replacement: %s", got)
	}
}

func TestAC06_SynthesizeCalls(t *testing.T) {
	a := New(Options{})
	if err := a.RegisterTextPattern("at", atPattern{}); err != nil {
		t.Fatal(err)
	}
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
