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

func TestBlockGrammar(t *testing.T) {
	for _, c := range []struct{ inner, name, arguments string }{
		{"<name>f</name>", "f", "{}"},
		{"<name>f</name><args></args>", "f", "{}"},
		{"<args> {\"a\": 1} </args><name>f</name>", "f", `{"a": 1}`},
		{"<name>f</name><args>not JSON</args>", "f", "not JSON"},
		{`<name>f</name><args>{"a":"</args>"}</args>`, "f", `{"a":"</args>"}`},
		{`<args>{"a":"<name>g</name>"}</args><name>f</name>`, "f", `{"a":"<name>g</name>"}`},
		{`<args>{"a":"</args><name>g</name>"}</args><name>f</name>`, "f", `{"a":"</args><name>g</name>"}`},
		{"<name>f</name><args>{}</args><a>1</a>", "f", `{"args":{},"a":"1"}`},
		{"<a> x </a><name>\r\n f\r\n</name><b>y</b>", "f", `{"a":"x","b":"y"}`},
		{"<name>f</name><name>g</name>", "f", `{"name":"g"}`},
		{"<name>f</name><a>1</a><b>2</b><a>3</a>", "f", `{"a":"3","b":"2"}`},
		{"<name>f</name><a>12</a><b>true</b><c>null</c>", "f", `{"a":"12","b":"true","c":"null"}`},
		{`<name>f</name><a>[1, "x"]</a><b>{"k": 2}</b><c>[1,</c>`, "f", `{"a":[1, "x"],"b":{"k": 2},"c":"[1,"}`},
		{"<name>f</name><a><item>x</item><item>[1]</item></a>", "f", `{"a":["x",[1]]}`},
		{"<name>f</name><a><k>x</k><l><item>y</item></l></a>", "f", `{"a":{"k":"x","l":["y"]}}`},
		{`<name>f</name><a><a href="u">x</a></a>`, "f", `{"a":"<a href=\"u\">x"}`},
		{`<name>f</name><q><a href="u">x</a> <br></q>`, "f", `{"q":"<a href=\"u\">x</a> <br>"}`},
		{`<name>f</name><q>["<b>"]</q>`, "f", `{"q":"[\"<b>\"]"}`},
		{"<name>f</name><a>R&amp;D <![CDATA[x]]></a>", "f", `{"a":"R&amp;D <![CDATA[x]]>"}`},
		{"<name>f</name><open>lost <b>kept</b>", "f", `{"b":"kept"}`},
		{"<name>f</name><q>\x00\"\\\n\u2028.</q>", "f", "{\"q\":\"\\u0000\\\"\\\\\\n\\u2028.\"}"},
		{"<name>f</name><q>a < b > c</q>", "f", `{"q":"a < b > c"}`},
	} {
		for _, opener := range []string{"<use_tool>", `<use_tool id="1">`, "<use_tool\n>"} {
			name, arguments, err := parseBlock(opener + c.inner + "</use_tool>")
			if err != nil || name != c.name || arguments != c.arguments {
				t.Errorf("%s\n got %s %s %v\nwant %s %s", c.inner, name, arguments, err, c.name, c.arguments)
			}
		}
	}
}

func TestBlockErrors(t *testing.T) {
	for block, want := range map[string]error{
		"": errNoBlock, "<use_tool>": errNoBlock, "</use_tool>": errNoBlock, "<use_tool></use_tool": errNoBlock,
		"<use_tools><name>f</name></use_tool>": errNoBlock, "<use_tool/></use_tool>": errNoBlock,
		"<use_tool a=1/></use_tool>": errNoBlock, "<use_tool </use_tool>": errNoBlock, "<use_tool": errNoBlock,
		"<use_tool></use_tool>": errNoName, "<use_tool><name>f</use_tool>": errNoName,
		"<use_tool><name> \n</name></use_tool>":                     errEmptyName,
		"<use_tool><name>f<query>x</query></name></use_tool>":       errMarkupName,
		`<use_tool><name>f</name><args>{"q":["x"</use_tool>`:        errOpenArgs,
		`<use_tool><args>{"q":1}<name>f</name></use_tool>`:          errOpenArgs,
		`<use_tool><args>{"n":"<name>x</name>"}</args></use_tool>`:  errNoName,
		`<use_tool><args>{"n":"<name>x</name>"}</args> </use_tool>`: errNoName,
	} {
		if name, arguments, err := parseBlock(block); !errors.Is(err, want) || name != "" || arguments != "" {
			t.Errorf("%s: %q %q %v, want %v", block, name, arguments, err, want)
		}
	}
}
