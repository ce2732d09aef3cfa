package usetool

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

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
		{"<name>f</name><content>Use <b>bold</b> text</content>", "f", `{"content":"Use <b>bold</b> text"}`},
		{"<name>f</name><a><item>x</item> and <item>y</item></a>", "f", `{"a":"<item>x</item> and <item>y</item>"}`},
		{"<name>f</name><a>\n<k>x</k>\n<l>y <b>z</b></l>\n</a>", "f", `{"a":{"k":"x","l":"y <b>z</b>"}}`},
		{`<name>f</name><a><a href="u">x</a></a>`, "f", `{"a":"<a href=\"u\">x"}`},
		{`<name>f</name><q><a href="u">x</a> <br></q>`, "f", `{"q":"<a href=\"u\">x</a> <br>"}`},
		{`<name>f</name><q>["<b>"]</q>`, "f", `{"q":"[\"<b>\"]"}`},
		{"<name>f</name><a>R&amp;D <![CDATA[x]]></a>", "f", `{"a":"R&amp;D <![CDATA[x]]>"}`},
		{"<name>f</name><open>lost <b>kept</b>", "f", `{"b":"kept"}`},
		{"<name>f</name><q>\x00\"\\\n\u2028.</q>", "f", "{\"q\":\"\\u0000\\\"\\\\\\n\\u2028.\"}"},
		{"<name>f</name><q>a < b > c</q>", "f", `{"q":"a < b > c"}`},
	} {
		for _, opener := range []string{"<use_tool>", `<use_tool id="1">`, "<use_tool\n>"} {
			name, arguments, err := Parse(opener + c.inner + "</use_tool>")
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
		if name, arguments, err := Parse(block); !errors.Is(err, want) || name != "" || arguments != "" {
			t.Errorf("%s: %q %q %v, want %v", block, name, arguments, err, want)
		}
	}
}

// TestBlockCost: twice the text of a block costs twice the memory, in what is hard
// to match as in what is easy.
func TestBlockCost(t *testing.T) {
	const n, runtimeBytes = 1 << 12, 1 << 14 // the second: what the runtime may allocate meanwhile
	deep := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	for name, inner := range map[string]func(n int) string{
		"openers":      func(n int) string { return strings.Repeat("<a>", n) },
		"closers":      func(n int) string { return strings.Repeat("</a>", n) },
		"brackets":     func(n int) string { return strings.Repeat("<", n) },
		"pairs":        func(n int) string { return strings.Repeat("<a>1</a>", n) },
		"nested pairs": deep,
		"items":        func(n int) string { return "<a>" + strings.Repeat("<item>1</item>", n) + "</a>" },
	} {
		cost := func(n int) float64 {
			block := "<use_tool><name>f</name>" + inner(n) + "</use_tool>"
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if _, _, err := Parse(block); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		if once, twice := cost(n), cost(2*n); twice > 3*once+runtimeBytes {
			t.Errorf("%s: %.0f bytes for one, %.0f for two", name, once, twice)
		}
	}
}
