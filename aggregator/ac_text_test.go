package aggregator

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

var atCall = regexp.MustCompile(`@(\w+)\(([^)]*)\)`)

// atPattern is a textual form of the tests' own: @name(arguments).
func atPattern(text string) []Block {
	var blocks []Block
	for _, m := range atCall.FindAllStringSubmatchIndex(text, -1) {
		blocks = append(blocks, Block{Start: m[0], End: m[1], Name: text[m[2]:m[3]], Arguments: text[m[4]:m[5]]})
	}
	return blocks
}

func TestAC06_TextualFallback(t *testing.T) {
	a := New()
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
	a := New()
	for _, bad := range []struct {
		name  string
		match Matcher
	}{{"", atPattern}, {"at", nil}, {UseToolPattern, atPattern}} {
		if err := a.RegisterTextPattern(bad.name, bad.match); !errors.Is(err, ErrPattern) {
			t.Errorf("registering %q: %v", bad.name, err)
		}
	}
	if err := a.RegisterTextPattern("at", atPattern); err != nil {
		t.Fatal(err)
	}
	text := `@f({}) <use_tool><name>g</name><x>@inner(1)</x></use_tool> @h()`
	var names []string
	for _, b := range a.ExtractBlocks(text) {
		names = append(names, b.Pattern+":"+b.Name)
	}
	if got := strings.Join(names, " "); got != "at:f use_tool:g at:h" {
		t.Errorf("blocks by every pattern, in order, without overlaps: %s", got)
	}
	if got := New().ExtractBlocks(text); len(got) != 1 {
		t.Errorf("another aggregator knows the pattern: %+v", got)
	}

	// A pattern can be replaced; blocks that are not in the text are dropped.
	err := a.RegisterTextPattern("at", func(string) []Block {
		return []Block{{Start: -1, End: 2, Name: "a"}, {Start: 0, End: 1 << 20, Name: "b"}, {Start: 2, End: 2, Name: "c"},
			{Start: 3, End: 1, Name: "d"}, {Start: 0, End: 1}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.ExtractBlocks("text"); len(got) != 0 {
		t.Errorf("blocks outside the text: %+v", got)
	}
	if got := a.Stats().Malformed; got != 5 {
		t.Errorf("%d malformed blocks counted", got)
	}
}

func TestAC06_SynthesizeCalls(t *testing.T) {
	a := New()
	if err := a.RegisterTextPattern("at", atPattern); err != nil {
		t.Fatal(err)
	}
	block := "<use_tool><name>f</name><a>1</a></use_tool>"
	text := block + " and again " + block + " @g([])"
	message := []byte(object("role", "assistant", "content", text))
	wantNothing(t, a.IngestMessage(0, message))
	r := a.IngestMessage(0, message, SynthesizeCalls())
	if len(r.Deltas) != 3 || !r.Deltas[2].Done {
		t.Fatalf("deltas: %+v", r.Deltas)
	}
	wantNothing(t, a.IngestMessage(0, message, SynthesizeCalls()))
	wantCalls(t, a, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`, "g", "[]")

	for form, m := range map[string]string{
		"content parts": object("role", "assistant", "content", []any{
			raw(object("type", "text", "text", "see "+block[:20])), raw(object("type", "output_text", "text", block[20:]))}),
		"agentMessage": object("type", "agentMessage", "id", "m1", "text", "see "+block),
		"notification": object("method", methodItemCompleted, "params", raw(object("item",
			raw(object("type", "agentMessage", "id", "m1", "text", "see "+block))))),
	} {
		b := New()
		one(t, b.IngestMessage(0, []byte(m), SynthesizeCalls()))
		wantNothing(t, b.IngestMessage(0, []byte(m), SynthesizeCalls()))
		wantCalls(t, b, 0, "f", `{"a":"1"}`)
		if t.Failed() {
			t.Fatal(form)
		}
	}

	// Only if there is no structured call.
	c := New()
	feed(c, 0, rawItem("call_1", "f", `{"a":"1"}`))
	wantNothing(t, c.IngestMessage(0, message, SynthesizeCalls()))
	wantCalls(t, c, 0, "f", `{"a":"1"}`)

	// Another message is known by its id, though its text be the same.
	d := New()
	for _, id := range []string{"m1", "m2", "m1"} {
		d.IngestMessage(0, []byte(object("type", "agentMessage", "id", id, "text", block)), SynthesizeCalls())
	}
	wantCalls(t, d, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`)

	// A structured call behind a textual one is a call of its own.
	feed(a, 0, chatHead(0, "call_9", "f", "{}"))
	wantCalls(t, a, 0, "f", `{"a":"1"}`, "f", `{"a":"1"}`, "g", "[]", "f", "{}")
}
