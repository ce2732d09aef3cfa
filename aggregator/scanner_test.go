package aggregator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// cuttings calls f with the text cut in two at every place, and into pieces of several sizes.
func cuttings(text string, f func(how string, pieces []string)) {
	f("whole", []string{text})
	for i := range len(text) + 1 {
		f(fmt.Sprintf("cut at %d", i), []string{text[:i], text[i:]})
	}
	for _, size := range []int{1, 2, 3, 5, 7, 8} {
		f(fmt.Sprintf("pieces of %d", size), pieces(text, size))
	}
}

// scanCase is a text and the segments that it has, as show writes them.
type scanCase struct {
	name string
	opts ScannerOptions
	text string
	want string
}

// useTool is a block that names a tool, of inner more text.
func useTool(name, inner string) string {
	return "<use_tool><name>" + name + "</name>" + inner + "</use_tool>"
}

// runCases runs each case over every cutting, against the expectation and against the reference.
func runCases(t *testing.T, cases []scanCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := show(refScan(c.text, c.opts, usetool.AbortUnclosed)); got != c.want {
				t.Errorf("the reference has\n%s\nwant\n%s", got, c.want)
			}
			cuttings(c.text, func(how string, pieces []string) {
				got := show(scan(t, c.opts, "", pieces...))
				if got != c.want {
					t.Fatalf("%s:\n%s\nwant\n%s", how, got, c.want)
				}
			})
		})
	}
}

func TestScannerText(t *testing.T) {
	texts := map[string]string{
		"nothing":                 "",
		"plain":                   "No tool is needed.",
		"a lone <":                "a < b",
		"< at the end":            "a <",
		"tag begun at the end":    "see <use_to",
		"name at the end":         "see <use_tool",
		"attributes at the end":   "see <use_tool for=\"x\"",
		"slash at the end":        "see <use_tool/",
		"look-alikes":             "<use_tools><user>< use_tool><USE_TOOL><use_tool_x><use_tool-x></use_tool><use_toolé>",
		"slash and more":          "<use_tool/x><use_tool/ ><use_tool//>",
		"tag in attributes":       "<use_tool a=\"<\">",
		"tag after a slash":       "<use_tool/<b>",
		"closers alone":           "</use_tool></args></name>",
		"args alone":              "<args>{\"a\":\"<b>\"}</args>",
		"CR LF":                   "a\r\nb\r\n",
		"BOM":                     "\ufeffa",
		"NUL":                     "\x00<\x00",
		"multibyte":               "é€😀 <é <use_€ 😀",
		"invalid UTF-8":           "\x80\xff\xe2\x82<\xf0\x9f\x98\xe2",
		"cut rune at the end":     "a\xf0\x9f\x98",
		"encoded lone surrogates": "\xed\xa0\x80 \xed\xb0\x80",
		"opener of MaxOpener+1":   "<use_tool " + strings.Repeat("a", usetool.MaxOpener-10) + ">x</use_tool>",
		"é across MaxOpener":      "<use_tool " + strings.Repeat("a", usetool.MaxOpener-11) + "é€>",
		"many <":                  strings.Repeat("<", 30),
		"openers begun":           strings.Repeat("<use_tool", 9),
		"openers with a space":    strings.Repeat("<use_tool ", 9),
	}
	var cases []scanCase
	for name, text := range texts {
		want := "|" + text + "|"
		if text == "" {
			want = ""
		}
		cases = append(cases, scanCase{name: name, text: text, want: want})
	}
	runCases(t, cases)
}

func TestScannerBlocks(t *testing.T) {
	a, b := useTool("a", ""), useTool("b", "<x>1</x>")
	runCases(t, []scanCase{
		{name: "alone", text: a, want: "+ [a {}]"},
		{name: "text around", text: "before " + a + " after", want: "|before | + [a {}] | after|"},
		{name: "two, text between", text: "1" + a + "2\n" + b + "3",
			want: `|1| + [a {}] |2
| + [b {"x":"1"}] |3|`},
		{name: "two at once", text: a + b, want: `+ [a {}] + [b {"x":"1"}]`},
		{name: "identical", text: b + b, want: `+ [b {"x":"1"}] + [b {"x":"1"}]`},
		{name: "attributes", text: `<use_tool id="1" x='/'><name>a</name></use_tool>`, want: "+ [a {}]"},
		{name: "space in the opener", text: "<use_tool \r\n\t><name>a</name></use_tool>", want: "+ [a {}]"},
		{name: "opener of MaxOpener", text: "<use_tool " + strings.Repeat("a", usetool.MaxOpener-11) + "><name>a</name></use_tool>",
			want: "+ [a {}]"},
		{name: "self-closed", text: "x<use_tool/>y", want: "|x| + !malformed |<use_tool/>y|"},
		{name: "self-closed with attributes", text: `<use_tool a="b" / /><use_tool />`,
			want: `+ !malformed |<use_tool a="b" / />| + !malformed |<use_tool />|`},
		{name: "self-closed inside", text: useTool("a", "<x><use_tool/></x>"), want: `+ [a {"x":"<use_tool/>"}]`},
		{name: "two <", text: "<" + a, want: "|<| + [a {}]"},
		{name: "opener in an opener", text: "<use" + a, want: "|<use| + [a {}]"},
		{name: "opener in attributes", text: "<use_tool x" + a, want: "|<use_tool x| + [a {}]"},
		{name: "opener behind a slash", text: "<use_tool/" + a, want: "|<use_tool/| + [a {}]"},
		{name: "CR LF and BOM", text: "\ufeff<use_tool>\r\n<name>a</name>\r\n<x>1\r\n2</x>\r\n</use_tool>\r\n",
			want: "|\ufeff| + [a {\"x\":\"1\\r\\n2\"}] |\r\n|"},
		{name: "multibyte", text: "é" + useTool("a", "<x>€😀</x>") + "é", want: `|é| + [a {"x":"€😀"}] |é|`},
		{name: "invalid UTF-8 before", text: "\xe2\x82" + a + "\xf0\x9f", want: "|\xe2\x82| + [a {}] |\xf0\x9f|"},
		{name: "entities and CDATA", text: useTool("a", "<x>R&amp;D</x><y><![CDATA[1&2]]></y>"),
			want: `+ [a {"x":"R&amp;D","y":"<![CDATA[1&2]]>"}]`},
		{name: "other case inside", text: useTool("a", "<x><USE_TOOL></x><y></Use_Tool></y>"),
			want: `+ [a {"x":"<USE_TOOL>","y":"</Use_Tool>"}]`},
		{name: "closer with a space", text: useTool("a", "<x>1</use_tool ></x>"), want: `+ [a {"x":"1</use_tool >"}]`},
		{name: "closer begun twice", text: "<use_tool><name>a</name></use_</use_tool>", want: "+ [a {}]"},
		{name: "twenty", text: strings.Repeat(a, 20), want: strings.TrimSpace(strings.Repeat("+ [a {}] ", 20))},
	})
}

func TestScannerAborted(t *testing.T) {
	a := useTool("a", "")
	runCases(t, []scanCase{
		{name: "unclosed", text: "x<use_tool><name>a</name>", want: "|x| + !unclosed |<use_tool><name>a</name>|"},
		{name: "unclosed at once", text: "<use_tool>", want: "+ !unclosed |<use_tool>|"},
		{name: "closer begun", text: "<use_tool></use_tool", want: "+ !unclosed |<use_tool></use_tool|"},
		{name: "inner opener begun", text: "<use_tool>x<use_tool ", want: "+ !unclosed |<use_tool>x<use_tool |"},
		{name: "cut rune inside", text: "<use_tool>\xe2\x82", want: "+ !unclosed |<use_tool>\xe2\x82|"},
		{name: "nested", text: "<use_tool><name>x" + a + ".", want: "+ !nested |<use_tool><name>x| + [a {}] |.|"},
		{name: "nested twice", text: "<use_tool><use_tool>" + a,
			want: "+ !nested |<use_tool>| + !nested |<use_tool>| + [a {}]"},
		{name: "nested with attributes", text: "<use_tool><use_tool\nx><name>a</name></use_tool>",
			want: "+ !nested |<use_tool>| + [a {}]"},
		{name: "nested with two <", text: "<use_tool><" + a, want: "+ !nested |<use_tool><| + [a {}]"},
		{name: "nameless, then well-formed", text: "<use_tool></use_tool>" + a, want: "+ !malformed |<use_tool></use_tool>| + [a {}]"},
		{name: "nested, unclosed", text: "<use_tool>1<use_tool>2", want: "+ !nested |<use_tool>1| + !unclosed |<use_tool>2|"},
		{name: "a value that speaks of it",
			text: useTool("writeToFile", "<path>a.md</path><content>Use <use_tool> so.</content>") + ".",
			want: "+ !nested |<use_tool><name>writeToFile</name><path>a.md</path><content>Use |" +
				" + !malformed |<use_tool> so.</content></use_tool>.|"},
	})
}

func TestScannerReasons(t *testing.T) {
	const text = "x<use_tool>é"
	for _, reason := range []usetool.AbortReason{usetool.AbortUnclosed, usetool.AbortDisconnect, usetool.AbortInterrupted, usetool.AbortError} {
		want := "|x| + !" + string(reason) + " |<use_tool>é|"
		cuttings(text, func(how string, pieces []string) {
			if got := show(scan(t, ScannerOptions{}, reason, pieces...)); got != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", reason, how, got, want)
			}
		})
	}
}

func TestScannerArgs(t *testing.T) {
	values := map[string]string{
		"object":             `{"a":1}`,
		"closer of args":     `{"a":"</args>"}`,
		"closer":             `{"a":"</use_tool>"}`,
		"opener":             `{"a":"<use_tool>"}`,
		"opener with space":  `{"a":"<use_tool x=1>"}`,
		"opener begun":       `{"a":"<use_tool "}`,
		"> behind it":        `{"a":"<use_tool "} >`,
		"whole block":        `{"a":"<use_tool><name>b</name></use_tool>"}`,
		"two strings":        `{"</use_tool>":["<use_tool>","</use_tool>"],"b":"c"}`,
		"escaped quote":      `{"a":"\"</use_tool>\""}`,
		"escaped backslash":  `{"a":"\\","b":"</use_tool>\\"}`,
		"escaped letters":    `{"a":"\u0000\u00E9\ud800</use_tool>\/\b\f\n\r\t"}`,
		"white space":        "\r\n\t {\n\"a\" : \"</use_tool>\" ,\t\"b\" : [ -1.5E+3 , true , false , null ]\n}\n",
		"array":              `["</use_tool>",{"a":[]}]`,
		"string":             `"{\"a\":\"</use_tool>\"}"`,
		"multibyte":          `{"é":"€😀</use_tool>"}`,
		"invalid UTF-8":      "{\"a\":\"\xff</use_tool>\xe2\x82\"}",
		"text behind":        `{"a":"</use_tool>"} and "a quote`,
		"no JSON":            `query="</x>`,
		"no JSON, one quote": `it's "so`,
		"trailing comma":     `{"a":"</use_tool>",}`,
		"break in a string":  "{\"a\":\"1\n2\"}",
		"quote in a string":  `{"a":"he said "no"."}`,
		"empty":              "",
	}
	for name, value := range values {
		text := useTool("a", "<args>"+value+"</args>")
		arguments := strings.TrimSpace(value)
		if value == "" {
			arguments = "{}"
		}
		t.Run(name, func(t *testing.T) {
			want := "|x| + [a " + arguments + "] |y|"
			runCases(t, []scanCase{{name: "closed", text: "x" + text + "y", want: want}})
		})
	}
}

func TestScannerArgsBroken(t *testing.T) {
	// A quote is missing: the string goes on over the closing tags.
	missing := useTool("a", `<args>{"q":"x}</args>`)
	parsed := `+ [a {"q":"x}]`
	b := useTool("b", "")
	runCases(t, []scanCase{
		{name: "at the end", text: missing, want: parsed},
		{name: "text behind", text: missing + " and so on", want: parsed + " | and so on|"},
		{name: "a line behind", text: missing + "\nand so on", want: parsed + " |\nand so on|"},
		{name: "a quote behind", text: missing + ` he said "no" and`, want: parsed + ` | he said "no" and|`},
		{name: "an escape behind", text: missing + ` \d \u12x`, want: parsed + ` | \d \u12x|`},
		{name: "a block behind", text: missing + " " + b + "\n", want: parsed + " | | + [b {}] |\n|"},
		{name: "the same behind", text: missing + missing + `",",":"` + missing,
			want: parsed + " " + parsed + ` |",",":"| ` + parsed},
		{name: "an unclosed one behind", text: missing + `<use_tool>"`, want: parsed + ` + !unclosed |<use_tool>"|`},
		{name: "opener in the string", text: `<use_tool><args>{"q":"x ` + b + "\n",
			want: `+ !nested |<use_tool><args>{"q":"x | + [b {}] |` + "\n|"},
		{name: "opener in the string, at the end", text: `<use_tool><args>{"q":"<use_tool x>`,
			want: `+ !nested |<use_tool><args>{"q":"| + !unclosed |<use_tool x>|`},
		{name: "opener with the break in it", text: "<use_tool><args>{\"q\":\"<use_tool\n><name>b</name></use_tool>",
			want: `+ !nested |<use_tool><args>{"q":"| + [b {}]`},
		{name: "opener across strings", text: `<use_tool><args>["<use_tool ",">` + "\n",
			want: `+ !nested |<use_tool><args>["| + !unclosed |<use_tool ",">` + "\n|"},
		{name: "unclosed without a tag", text: `<use_tool><args>{"q":"x}</args>`,
			want: `+ !unclosed |<use_tool><args>{"q":"x}</args>|`},
		{name: "cut short", text: useTool("a", `<args>{"q":["x"</args>`), want: `+ [a {"q":["x"]`},
		{name: "cut short behind a tag", text: `<use_tool><args>{"q":["</use_tool>"</args></use_tool>`,
			want: `+ !malformed |<use_tool><args>{"q":["</use_tool>"</args></use_tool>|`},
		{name: "three digits", text: `<use_tool><args>{"\u123","</use_tool>":1}`,
			want: `+ !malformed |<use_tool><args>{"\u123","</use_tool>":1}|`},
		{name: "string behind a string", text: `<use_tool><args>{"a""</use_tool>":1}`,
			want: `+ !malformed |<use_tool><args>{"a""</use_tool>":1}|`},
		{name: "string behind a number", text: `<use_tool><args>[1"</use_tool>"]`,
			want: `+ !malformed |<use_tool><args>[1"</use_tool>"]|`},
		{name: "word behind a string", text: `<use_tool><args>["a"true,"</use_tool>"]`,
			want: `+ !malformed |<use_tool><args>["a"true,"</use_tool>"]|`},
		{name: "args again", text: `<use_tool><args>{"q"x <args>{"</use_tool>":1}</args></use_tool>`,
			want: `+ !malformed |<use_tool><args>{"q"x <args>{"</use_tool>":1}</args></use_tool>|`},
		{name: "args again in the string", text: "<use_tool><args>{\"<args>{\x01\"</use_tool>\"</use_tool>\n",
			want: "+ !malformed |<use_tool><args>{\"<args>{\x01\"</use_tool>\"</use_tool>\n|"},
	})
}

func TestScannerMaxBlock(t *testing.T) {
	a := useTool("a", "<x>1</x>")
	n := len(a)
	runCases(t, []scanCase{
		{name: "as large as allowed", opts: ScannerOptions{MaxBlock: n}, text: a, want: `+ [a {"x":"1"}]`},
		{name: "one byte more", opts: ScannerOptions{MaxBlock: n - 1}, text: a + ".", want: "+ !too_large |" + a + ".|"},
		{name: "scanning goes on", opts: ScannerOptions{MaxBlock: n},
			text: useTool("a", "<x>11</x>") + a, want: "+ !too_large |" + useTool("a", "<x>11</x>") + `| + [a {"x":"1"}]`},
		{name: "opener across the limit", opts: ScannerOptions{MaxBlock: n},
			text: "<use_tool>" + strings.Repeat("y", n-15) + a,
			want: "+ !too_large |<use_tool>" + strings.Repeat("y", n-15) + `| + [a {"x":"1"}]`},
		{name: "opener complete behind the limit", opts: ScannerOptions{MaxBlock: n},
			text: "<use_tool>" + strings.Repeat("y", n-19) + a,
			want: "+ !too_large |<use_tool>" + strings.Repeat("y", n-19) + `| + [a {"x":"1"}]`},
		{name: "opener complete at the limit", opts: ScannerOptions{MaxBlock: n},
			text: "<use_tool>" + strings.Repeat("y", n-20) + a,
			want: "+ !nested |<use_tool>" + strings.Repeat("y", n-20) + `| + [a {"x":"1"}]`},
		{name: "self-closed across the limit", opts: ScannerOptions{MaxBlock: 20}, text: "<use_tool>yyyyyy<use_tool/>",
			want: "+ !too_large |<use_tool>yyyyyy| + !malformed |<use_tool/>|"},
		{name: "rune across the limit", opts: ScannerOptions{MaxBlock: 12}, text: "<use_tool>x😀y",
			want: "+ !too_large |<use_tool>x😀y|"},
		{name: "closer in a string", opts: ScannerOptions{MaxBlock: 60},
			text: useTool("a", `<args>{"q":"x}</args>`) + strings.Repeat("z", 70) + a,
			want: `+ [a {"q":"x}] |` + strings.Repeat("z", 70) + `| + [a {"x":"1"}]`},
		{name: "value ends behind the limit", opts: ScannerOptions{MaxBlock: 37},
			text: `<use_tool><args>{"q":"</use_tool>abcd"}</args></use_tool>`,
			want: `+ !malformed |<use_tool><args>{"q":"</use_tool>abcd"}</args></use_tool>|`},
		{name: "smaller than an opener", opts: ScannerOptions{MaxBlock: 9}, text: "1<use_tool>" + a,
			want: "|1| + !too_large |<use_tool>| + !too_large |" + a + "|"},
	})
}

func TestScannerAccept(t *testing.T) {
	opts := ScannerOptions{Accept: func(name string) bool { return name == "a" }}
	a, b := useTool("a", ""), useTool("b", "")
	runCases(t, []scanCase{
		{name: "both", opts: opts, text: "1" + a + "2" + b + "3" + a, want: "|1| + [a {}] |2| + ?b |" + b + "3| + [a {}]"},
		{name: "no name", opts: opts, text: "<use_tool></use_tool>", want: "+ !malformed |<use_tool></use_tool>|"},
		{name: "unclosed", opts: opts, text: "<use_tool><name>b", want: "+ !unclosed |<use_tool><name>b|"},
	})
}

// What can go out goes out: outside a block only a begun tag or rune is held.
func TestScannerHolds(t *testing.T) {
	for _, c := range []struct {
		text string
		held int
		open bool
	}{
		{"", 0, false},
		{"abc", 0, false},
		{"a\n```\n", 0, false},
		{"a <", 1, false},
		{"a <<", 1, false},
		{"a </", 0, false},
		{"a </use_tool", 0, false},
		{"a <args", 0, false},
		{"a <b", 0, false},
		{"a <use", 4, false},
		{"a <use_tool", 9, false},
		{"a <use_tools", 0, false},
		{"a <use_tool/", 10, false},
		{"a <use_tool x", 11, false},
		{"a <use_tool x<", 1, false},
		{"a <use_tool " + strings.Repeat("x", usetool.MaxOpener-11), usetool.MaxOpener - 1, false},
		{"a <use_tool " + strings.Repeat("x", usetool.MaxOpener-10), 0, false},
		{"a <use_tool " + strings.Repeat("x", usetool.MaxOpener-11) + "\xc3", 1, false},
		{"é", 0, false},
		{"a\xc3", 1, false},
		{"a\xf0\x9f\x98", 3, false},
		{"a\xf0\x9f\x98x", 0, false},
		{"a\xe2\x82<", 1, false},
		{"a\x80\x80\x80\x80", 0, false},
		{"\xe0\x80", 0, false},
		{"a<use_tool>", 10, true},
		{"a<use_tool>b<", 12, true},
		{"a<use_tool>b<use_tool>", 10, true},
		{"a<use_tool></use_tool>", 0, false},
	} {
		for _, size := range []int{1, 2, max(1, len(c.text))} {
			s := NewScanner(ScannerOptions{})
			for _, piece := range pieces(c.text, size) {
				s.Feed(piece, nil)
			}
			if s.Held() != c.held || s.Open() != c.open {
				t.Errorf("%q by %d: %d bytes held, open %t; want %d, %t", c.text, size, s.Held(), s.Open(), c.held, c.open)
			}
		}
	}
}

// A message ends with Finish: the next one begins anew, at the next offset.
func TestScannerMessages(t *testing.T) {
	s := NewScanner(ScannerOptions{SkipFenced: true})
	var segments []usetool.Segment
	for _, message := range []string{"a <use", "_tool>\n```\n", useTool("a", ""), "<use_tool>\n<na", "me>b</name></use_tool>"} {
		segments = s.Feed(message, segments)
		segments = s.Finish(usetool.AbortError, segments)
		segments = s.Finish(usetool.AbortError, segments)
	}
	checkScanned(t, nil, "a <use_tool>\n```\n"+useTool("a", "")+"<use_tool>\n<name>b</name></use_tool>", segments)
	want := "|a <use_tool>\n```\n| + [a {}] + !error |<use_tool>\n<name>b</name></use_tool>|"
	if got := show(segments); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestScannerAppends(t *testing.T) {
	first := []usetool.Segment{{Kind: usetool.SegmentText, Text: "first"}}
	s := NewScanner(ScannerOptions{})
	got := s.Finish("", s.Feed("a<", first))
	if want := "|firsta<|"; show(got) != want || !slices.Equal(got[:1], first) {
		t.Errorf("%s, want %s", show(got), want)
	}
}

// costTexts are texts of some size that are dear to a scanner that goes back.
func costTexts(size int) map[string]string {
	return map[string]string{
		"less-than signs":       strings.Repeat("<", size),
		"begun openers":         strings.Repeat("<use_tool", size/9),
		"begun attributes":      strings.Repeat("<use_tool ", size/10),
		"text with less-than":   strings.Repeat(strings.Repeat("text ", 20)+"<", size/100),
		"one open block":        "<use_tool>" + strings.Repeat("x", size),
		"openers":               strings.Repeat("<use_tool>", size/100),
		"closers in one string": "<use_tool><args>{\"" + strings.Repeat("</use_tool>", size/11),
		"broken values":         strings.Repeat("<use_tool><args>{\"</use_tool>", size/100),
		"values in two phases":  strings.Repeat("<use_tool><args>{\"</use_tool>", 2) + strings.Repeat("\":\":\",\",", size/8),
		"fences":                strings.Repeat("```\n<use_tool>\n```\n", size/100),
	}
}

// A text costs two looks at each byte at most, be it one piece or many. It is a
// dozen times as long as the largest block.
func TestScannerLinear(t *testing.T) {
	const maxBlock = 20 << 10
	for name, text := range costTexts(12 * maxBlock) {
		t.Run(name, func(t *testing.T) {
			opts := ScannerOptions{MaxBlock: maxBlock, SkipFenced: name == "fences"}
			checkCost(t, opts, text, len(text))
			checkCost(t, opts, text, 4096)
			checkCost(t, opts, text, 7)
		})
	}
}

// checkCost feeds a text in pieces of size bytes and checks what that costs.
func checkCost(t *testing.T, opts ScannerOptions, text string, size int) {
	s := NewScanner(opts)
	var segments []usetool.Segment
	given := 0
	for from := 0; from < len(text); from += size {
		fed := min(from+size, len(text))
		segments = s.Feed(text[from:fed], segments[:0])
		given += textBytes(segments)
		if given+s.Held() != fed {
			t.Fatalf("pieces of %d: %d bytes given and %d held, of %d", size, given, s.Held(), fed)
		}
		if s.Held() > opts.MaxBlock {
			t.Fatalf("pieces of %d: %d bytes are held", size, s.Held())
		}
	}
	if given += textBytes(s.Finish("", segments[:0])); given != len(text) {
		t.Errorf("pieces of %d: %d bytes given, of %d", size, given, len(text))
	}
	if s.useTool.examined > 2*int64(len(text)) {
		t.Errorf("pieces of %d: %d looks at %d bytes", size, s.useTool.examined, len(text))
	}
	if most := 2 * (opts.MaxBlock + size); cap(s.useTool.held) > most {
		t.Errorf("pieces of %d: the buffer has grown to %d bytes", size, cap(s.useTool.held))
	}
}

func textBytes(segments []usetool.Segment) int {
	n := 0
	for _, segment := range segments {
		n += len(segment.Text)
	}
	return n
}

// TestScannerLooks: each byte is looked at once, but behind a broken JSON value again from its first
// tag on, be it held or new.
func TestScannerLooks(t *testing.T) {
	const broken, tail = `<use_tool><args>{"a":"</use_tool>`, "0123456789\n"
	whole := strings.Repeat("text < "+useTool("a", `<args>{"a":"</use_tool>"}</args>`)+"<use_tool>", 50)
	for text, want := range map[string]int{whole: len(whole), broken + tail: len(broken) + 2*len(tail)} {
		for _, size := range []int{1, 5, len(broken), len(text)} {
			s := NewScanner(ScannerOptions{})
			for _, piece := range pieces(text, size) {
				s.Feed(piece, nil)
			}
			if s.useTool.examined != int64(want) {
				t.Errorf("pieces of %d: %d looks, want %d", size, s.useTool.examined, want)
			}
		}
	}
}

func benchmarkScan(b *testing.B, text string, size int, opts ScannerOptions) {
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	var out []usetool.Segment
	for b.Loop() {
		s := NewScanner(opts)
		for from := 0; from < len(text); from += size {
			out = s.Feed(text[from:min(from+size, len(text))], out[:0])
		}
		out = s.Finish("", out[:0])
	}
}

func BenchmarkScannerPlainDeltas(b *testing.B) {
	benchmarkScan(b, strings.Repeat("text ", 200_000), 5, ScannerOptions{})
}

func BenchmarkScannerBlocks(b *testing.B) {
	block := "text " + useTool("writeToFile", "<path>a.md</path><content>"+strings.Repeat("text ", 20)+"</content>")
	benchmarkScan(b, strings.Repeat(block, 1000), 5, ScannerOptions{})
}

// scanTokens are what the texts of the random tests are made of: the words of
// the grammar, pieces of them, and what may come between.
var scanTokens = []string{
	"<use_tool>", "</use_tool>", "<use_tool>", "</use_tool>", "<name>a</name>", "<name>b</name>", "<args>", "</args>",
	"<args>{\"", "\"}</args>", "{", "}", "[", "]", "\"", "\"", ":", ",", "\":\"", "\",\"", "\\", "\\\"", "\\u00e9", "\\u1", "true", "1",
	"<use_tool", " x=\"1\"", ">", "/", "/>", "<use_tool ", "<use_tool/>", "<", "</", "</use_", "<a", "<args", "us", "e_tool>",
	"\n", "\r\n", "\r", "```", "```\n", "\n```\n", "~~~~", "`", "    ", " ", "\t", "x", "use_tools", "<x>", "</x>",
	"é", "€", "😀", "\xe2\x82", "\xf0", "\x80", "\x00", "\xed\xa0\x80", "\ufeff", strings.Repeat("y", usetool.MaxOpener/2),
}

// fuzzOptions makes options of a byte: small limits, fences, names.
func fuzzOptions(flags byte) ScannerOptions {
	opts := ScannerOptions{
		MaxBlock:   []int{0, 5, 16, 33, 48, 64, 100, 300}[flags&7],
		SkipFenced: flags&8 != 0,
	}
	if flags&16 != 0 {
		opts.Accept = func(name string) bool { return name == "a" }
	}
	return opts
}

// exact writes all fields of segments, one in a line.
func exact(segments []usetool.Segment) string {
	var lines strings.Builder
	for _, s := range segments {
		fmt.Fprintf(&lines, "%d %s %q %q %q %s %v\n", s.Offset, s.Kind, s.Text, s.Name, s.Arguments, s.Reason, s.Err)
	}
	return lines.String()
}

// compareScan checks that a text has the segments of the reference, whole and cut, and returns them.
func compareScan(t *testing.T, text string, sizes []byte, flags byte) []usetool.Segment {
	t.Helper()
	opts := fuzzOptions(flags)
	segments := refScan(text, opts, usetool.AbortError)
	want := exact(segments)
	for _, pieces := range [][]string{{text}, pieces(text, sizes...), pieces(text, 1)} {
		got := exact(joined(scan(t, opts, usetool.AbortError, pieces...)))
		if got != want {
			t.Fatalf("options %+v, pieces %q:\n%s\nthe reference has\n%s", opts, pieces, got, want)
		}
	}
	return segments
}

// maxFuzzText keeps the reference, which is not linear, from taking long.
const maxFuzzText = 4 << 10

// FuzzScannerText compares the scanner with the reference on any text.
func FuzzScannerText(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, sizes []byte, flags byte) {
		text = text[:min(len(text), maxFuzzText)]
		compareScan(t, text, sizes, flags)
	})
}

// FuzzScannerTokens does so on texts made of the grammar's words.
func FuzzScannerTokens(f *testing.F) {
	f.Fuzz(func(t *testing.T, program, sizes []byte, flags byte) {
		text := tokenText(scanTokens, program)
		compareScan(t, text[:min(len(text), maxFuzzText)], sizes, flags)
	})
}

// FuzzBlocks: blocks are where they say, and their arguments are JSON unless they were written as <args>.
func FuzzBlocks(f *testing.F) {
	f.Add("<use_tool><name>f</name><a><item>1</item></a></use_tool>")
	f.Fuzz(func(t *testing.T, text string) {
		scanner := NewScanner(ScannerOptions{MaxBlock: len(text) + 1})
		end := 0
		for _, b := range scanner.Finish(usetool.AbortUnclosed, scanner.Feed(text, nil)) {
			if b.Kind != usetool.SegmentBlock {
				continue
			}
			start := int(b.Offset)
			if start < end || !strings.HasPrefix(b.Text, "<use_tool") || !strings.HasSuffix(b.Text, "</use_tool>") {
				t.Fatalf("%q in %q", b.Text, text)
			}
			if end = start + len(b.Text); text[start:end] != b.Text {
				t.Fatalf("%q at %d of %q", b.Text, start, text)
			}
			if !strings.Contains(b.Text, "<args>") && !json.Valid([]byte(b.Arguments)) {
				t.Fatalf("%q has the arguments %q", b.Text, b.Arguments)
			}
		}
		usetool.Parse(text)
	})
}

// TestScannerRandom does the same as FuzzScannerTokens, on the same texts each
// time, so that every run of the tests compares some thousand.
func TestScannerRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 12))
	ended := map[string]int{}
	for range 6000 {
		program := make([]byte, random.IntN(24))
		for i := range program {
			program[i] = byte(random.IntN(len(scanTokens)))
		}
		sizes := []byte{byte(random.IntN(9)), byte(1 + random.IntN(20))}
		flags := byte(random.IntN(32))
		for _, segment := range compareScan(t, tokenText(scanTokens, program), sizes, flags) {
			ended[string(segment.Kind)+string(segment.Reason)]++
		}
	}
	for _, kind := range []string{"block", "undeclared", "abortednested", "abortedmalformed", "abortedtoo_large", "abortederror"} {
		if ended[kind] == 0 {
			t.Errorf("none of the texts has a segment %q", kind)
		}
	}
}

// scan feeds pieces to a new Scanner and returns its segments.
func scan(t testing.TB, opts ScannerOptions, reason usetool.AbortReason, pieces ...string) []usetool.Segment {
	t.Helper()
	s := NewScanner(opts)
	limit := max(s.useTool.opts.MaxBlock, usetool.MaxOpener)
	var segments []usetool.Segment
	for _, piece := range pieces {
		segments = s.Feed(piece, segments)
		if held := len(s.useTool.held); held > limit {
			t.Fatalf("%d bytes are held, of at most %d", held, limit)
		}
		if held := s.Held(); held > 2*limit {
			t.Fatalf("%d bytes are held, also by patterns, of at most %d", held, 2*limit)
		}
	}
	segments = s.Finish(reason, segments)
	if s.Open() || s.Held() != 0 {
		t.Errorf("after Finish: open %t, %d bytes held", s.Open(), s.Held())
	}
	text := strings.Join(pieces, "")
	checkScanned(t, opts.Patterns, text, segments)
	if limit := 2 * int64(len(text)); s.useTool.examined > limit {
		t.Errorf("%d looks at %d bytes, more than two each", s.useTool.examined, len(text))
	}
	return segments
}

// checkScanned checks what holds for the segments of any text.
func checkScanned(t testing.TB, patterns []NamedPattern, text string, segments []usetool.Segment) {
	t.Helper()
	var given strings.Builder
	begun := map[string]int{}
	for i, s := range segments {
		carries := s.Kind == usetool.SegmentText || s.Kind == usetool.SegmentBlock
		if carries != (s.Text != "") {
			t.Fatalf("segment %d (%s) has the text %q", i, s.Kind, s.Text)
		}
		// Notices of <use_tool> blocks may come before text that a pattern holds.
		if (carries || patterns == nil) && s.Offset != int64(given.Len()) {
			t.Fatalf("segment %d (%s) is at %d, should be at %d", i, s.Kind, s.Offset, given.Len())
		}
		given.WriteString(s.Text)
		if rest := text[min(given.Len(), len(text)):]; s.Kind == usetool.SegmentText && utf8.ValidString(text) && rest != "" && !utf8.RuneStart(rest[0]) {
			t.Fatalf("segment %d ends inside a character: %q", i, s.Text)
		}
		switch s.Kind {
		case usetool.SegmentText:
			continue
		case usetool.SegmentStarted:
			begun[s.Pattern]++
		default:
			begun[s.Pattern]--
		}
		if n := begun[s.Pattern]; n != 0 && n != 1 {
			t.Fatalf("segment %d (%s): %d blocks of %q are open", i, s.Kind, n, s.Pattern)
		}
	}
	for pattern, n := range begun {
		if n != 0 {
			t.Errorf("a block of %q was begun and never ended", pattern)
		}
	}
	if given.String() != text {
		t.Fatalf("the segments are the text %q, not %q", given.String(), text)
	}
}

func joined(segments []usetool.Segment) []usetool.Segment {
	var whole []usetool.Segment
	for _, segment := range segments {
		last := len(whole) - 1
		if last >= 0 && segment.Kind == usetool.SegmentText && whole[last].Kind == usetool.SegmentText {
			whole[last].Text += segment.Text
			continue
		}
		whole = append(whole, segment)
	}
	return whole
}

// show writes segments in one line, with adjacent text joined: |text| +pattern
// [pattern name arguments] !reason ?name. The <use_tool> pattern is left out.
func show(segments []usetool.Segment) string {
	var words []string
	for _, s := range joined(segments) {
		switch s.Kind {
		case usetool.SegmentText:
			words = append(words, "|"+s.Text+"|")
		case usetool.SegmentStarted:
			words = append(words, "+"+s.Pattern)
		case usetool.SegmentBlock:
			words = append(words, "["+strings.TrimSpace(s.Pattern+" "+s.Name+" "+s.Arguments)+"]")
		case usetool.SegmentAborted:
			words = append(words, "!"+string(s.Reason))
		case usetool.SegmentUndeclared:
			words = append(words, "?"+s.Name)
		}
	}
	return strings.Join(words, " ")
}

// pieces cuts a text into pieces of the sizes, in turns; some of them may be empty.
func pieces[T int | byte](text string, sizes ...T) []string {
	var parts []string
	for i := 0; text != "" && len(sizes) > 0; i++ {
		n := int(sizes[i%len(sizes)])
		if i >= 1<<12 {
			n = max(n, 1)
		}
		n = min(n, len(text))
		parts, text = append(parts, text[:n]), text[n:]
	}
	return append(parts, text)
}

func tokenText(tokens []string, program []byte) string {
	var text strings.Builder
	for _, b := range program {
		text.WriteString(tokens[int(b)%len(tokens)])
	}
	return text.String()
}
