package aggregator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// atPattern is a textual form of the tests' own: @name(arguments).
type atPattern struct{}

func (atPattern) Opener() string     { return "@" }
func (atPattern) Begin() BlockReader { return &atReader{} }

func (atPattern) Parse(block string) (name, arguments string, err error) {
	name, arguments, _ = strings.Cut(block[1:len(block)-1], "(")
	return name, arguments, nil
}

type atReader struct{ name, inside bool }

func (r *atReader) Next(b byte) BlockState {
	switch {
	case r.inside && b == ')':
		return BlockComplete
	case r.inside:
	case b == '(' && r.name:
		r.inside = true
	case b >= 'a' && b <= 'z':
		r.name = true
	default:
		return BlockBroken
	}
	return BlockOpen
}

// quoted is another form: «name», whose name may be any text.
type quoted struct{}

func (quoted) Opener() string     { return "«" }
func (quoted) Begin() BlockReader { return &quotedReader{} }

func (quoted) Parse(block string) (name, arguments string, err error) {
	if name = block[2 : len(block)-2]; name == "bad" {
		err = errors.New("a bad name")
	}
	return name, "{}", err
}

type quotedReader struct{ last byte }

func (r *quotedReader) Next(b byte) BlockState {
	last := r.last
	if r.last = b; last == 0xc2 && b == 0xbb { // »
		return BlockComplete
	}
	return BlockOpen
}

var toolCall Pattern

// SetToolCall sets toolCall before the tests begin.
func SetToolCall(p Pattern) { toolCall = p }

// longer is a form whose opener begins like that of toolCall and of <use_tool>.
type longer struct{ atPattern }

func (longer) Opener() string { return "<tool_calls@" }

func (longer) Parse(block string) (name, arguments string, err error) {
	return atPattern{}.Parse(strings.TrimPrefix(block, "<tool_calls"))
}

func testPatterns() []NamedPattern {
	return []NamedPattern{
		{Name: "at", Pattern: atPattern{}}, {Name: "quoted", Pattern: quoted{}},
		{Name: "tool_call", Pattern: toolCall}, {Name: "longer", Pattern: longer{}},
	}
}

const (
	toolCallF = `<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>`
	useToolG  = `<use_tool><name>g</name><x>1</x></use_tool>`
)

func TestScannerPatterns(t *testing.T) {
	short := ScannerOptions{}
	short.MaxBlock = 12
	fenced := ScannerOptions{}
	fenced.SkipFenced = true
	only := ScannerOptions{}
	only.Accept = func(name string) bool { return name == "f" }
	for _, c := range []struct {
		opts       ScannerOptions
		text, want string
	}{
		{text: "plain", want: "|plain|"},
		{text: "a @f(1) b", want: "|a | +at [at f 1] | b|"},
		{text: "a@b.c @ @f @f( @", want: "|a| +at !malformed |@b.c | +at !malformed |@ | +at !malformed |@f | +at !unclosed |@f( @|"},
		{text: "@@f()", want: "+at !malformed |@| +at [at f]"},
		{text: "«é» «bad» « »»", want: "+quoted [quoted é {}] | | +quoted !malformed |«bad» | +quoted [quoted   {}] |»|"},
		{text: toolCallF + toolCallF, want: `+tool_call [tool_call f {"a": "</tool_call>"}] +tool_call [tool_call f {"a": "</tool_call>"}]`},
		{text: "<tool_calls@f(2)><tool_call", want: "+longer [longer f 2] |><tool_call|"},
		{text: `<tool_call>{"name":"f"}<` + toolCallF[1:], want: `+tool_call !malformed |<tool_call>{"name":"f"}| +tool_call [tool_call f {"a": "</tool_call>"}]`},
		{text: `<tool_call>{}</tool_` + toolCallF, want: `+tool_call !malformed |<tool_call>{}</tool_| +tool_call [tool_call f {"a": "</tool_call>"}]`},
		{text: "@f(<tool_call", want: "+at !unclosed |@f(<tool_call|"},
		{opts: fenced, text: "```<\n```\n<tool_call>{}<\n```tool_call>", want: "|```<\n```\n| +tool_call !malformed |<tool_call>{}<\n```tool_call>|"},
		// <use_tool> blocks are found wherever they stand, and hide none of the others.
		{text: "@f(" + useToolG + ")", want: `+at + !nested |@f(| [g {"x":"1"}] |)|`},
		{text: `<tool_call>{"name":"f","arguments":{"s":"` + useToolG + `"}}</tool_call>`,
			want: `+tool_call + !nested |<tool_call>{"name":"f","arguments":{"s":"| [g {"x":"1"}] |"}}</tool_call>|`},
		{text: `<use_tool><name>g</name><x>@f(1)</x></use_tool>`, want: `+ [g {"x":"@f(1)"}]`},
		{text: `@f(<use_tool></use_tool>)`, want: "+at + !malformed [at f <use_tool></use_tool>]"},
		{text: `<use_tool>@f()`, want: "+ !unclosed |<use_tool>| +at [at f]"},
		{text: useToolG + "@f()", want: `+ [g {"x":"1"}] +at [at f]`},
		{opts: short, text: "@f(12345678)@f(123456789)@f()", want: "+at [at f 12345678] +at !too_large |@f(123456789)| +at [at f]"},
		{opts: short, text: "@f(12345678é)", want: "+at !too_large |@f(12345678é)|"},
		{opts: short, text: "@f(1234567é)", want: "+at !too_large |@f(1234567é)|"},
		{opts: short, text: "@f(12<tool_call>{}", want: "+at !too_large |@f(12| +tool_call !too_large |<tool_call>{}|"},
		{opts: fenced, text: useToolG + "```\n@f()", want: `+ [g {"x":"1"}] |` + "```\n| +at [at f]"},
		{opts: fenced, text: "```\n@f()\n```\n@f()", want: "|```\n@f()\n```\n| +at [at f]"},
		{opts: fenced, text: "@f(\n```\n)\n@f()", want: "+at [at f \n```] |\n| +at [at f]"},
		{opts: fenced, text: "@f\n```\n@f()", want: "+at !malformed |@f\n```\n@f()|"},
		{opts: only, text: "@g() @f()", want: "+at ?g |@g() | +at [at f]"},
		{opts: only, text: useToolG + toolCallF, want: `+ ?g |` + useToolG + `| +tool_call [tool_call f {"a": "</tool_call>"}]`},
	} {
		c.opts.Patterns = testPatterns()
		if got := show(scan(t, c.opts, "", c.text)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
		for _, size := range []int{1, 2, 3, 5, 7} {
			sameScan(t, c.opts, c.text, size)
		}
		for cut := range len(c.text) {
			sameScan(t, c.opts, c.text, cut, len(c.text))
		}
	}
}

// notices are the segments by pattern, without their text: for each pattern they
// come in the same order however the text is cut.
func notices(segments []usetool.Segment) map[string][]string {
	by := map[string][]string{}
	for _, s := range segments {
		if s.Kind != usetool.SegmentText {
			by[s.Pattern] = append(by[s.Pattern], fmt.Sprintf("%d %s %s %s %s", s.Offset, s.Kind, s.Name, s.Arguments, s.Reason))
		}
	}
	return by
}

// blocksAndText joins what a client gets: the blocks in order, and the text between.
func blocksAndText(segments []usetool.Segment) string {
	var out strings.Builder
	for _, s := range segments {
		switch s.Kind {
		case usetool.SegmentText:
			out.WriteString(s.Text)
		case usetool.SegmentBlock:
			fmt.Fprintf(&out, "\x00%s %s %s\x00", s.Pattern, s.Name, s.Arguments)
		}
	}
	return out.String()
}

// sameScan checks that a text in pieces has the segments that it has whole.
func sameScan(t testing.TB, opts ScannerOptions, text string, sizes ...int) {
	t.Helper()
	whole := scan(t, opts, usetool.AbortError, text)
	cut := scan(t, opts, usetool.AbortError, pieces(text, sizes...)...)
	if a, b := blocksAndText(whole), blocksAndText(cut); a != b {
		t.Fatalf("%q in pieces of %v:\n%s\nwhole:\n%s", text, sizes, b, a)
	}
	if a, b := fmt.Sprint(notices(whole)), fmt.Sprint(notices(cut)); a != b {
		t.Fatalf("%q in pieces of %v:\n%s\nwhole:\n%s", text, sizes, b, a)
	}
}

// patternTokens are what the texts of the random tests are made of.
var patternTokens = []string{
	"<use_tool>", "</use_tool>", "<name>a</name>", "<tool_call>", "</tool_call>", `{"name":"b","arguments":{}}`, `{"name":"`, `"}`, "<tool_call",
	"s@", "@", "f(", ")", "a", "«", "»", "\xc2", "\xab", "\xbb", "<", ">", "{", "}", `"`, "\\", ",", ":", " ", "\n", "```\n", "~~~", "é", "😀", "\xff",
}

func patternOptions(flags byte) ScannerOptions {
	opts := ScannerOptions{Patterns: testPatterns()[flags>>6:]}
	opts.MaxBlock = []int{0, 3, 12, 40}[flags&3]
	opts.SkipFenced = flags&4 != 0
	if flags&8 != 0 {
		opts.Accept = func(name string) bool { return name == "a" || name == "f" }
	}
	return opts
}

// checkCutting checks a text whole, in single bytes, and cut by sizes; and that a
// whole text has the same blocks.
func checkCutting(t testing.TB, text string, sizes []byte, flags byte) {
	t.Helper()
	opts := patternOptions(flags)
	sameScan(t, opts, text, 1)
	cuts := []int{3, 1, 11}
	for _, size := range sizes {
		cuts = append(cuts, int(size))
	}
	sameScan(t, opts, text, cuts...)
	a := New(Options{})
	for _, p := range opts.Patterns {
		if err := a.RegisterTextPattern(p.Name, p.Pattern); err != nil {
			t.Fatal(err)
		}
	}
	blocks := a.ExtractBlocks(text)
	opts = ScannerOptions{Patterns: opts.Patterns}
	opts.MaxBlock = len(text) + 1
	i := 0
	for _, s := range scan(t, opts, "", pieces(text, cuts...)...) {
		if s.Kind != usetool.SegmentBlock {
			continue
		}
		if b := blocks[i]; text[b.Start:b.End] != s.Text || b.Name != s.Name || b.Arguments != s.Arguments {
			t.Fatalf("%q: block %d is %+v, in the stream %+v", text, i, b, s)
		}
		i++
	}
	if i != len(blocks) {
		t.Fatalf("%q: %d blocks in the stream, %d in the whole text", text, i, len(blocks))
	}
}

// FuzzPatterns: however a text is cut, the blocks and the text between them are the
// same. The texts are made of the words of the forms.
func FuzzPatterns(f *testing.F) {
	f.Add([]byte{9, 10, 11, 12}, []byte{1}, byte(0))
	f.Fuzz(func(t *testing.T, program, sizes []byte, flags byte) {
		checkCutting(t, tokenText(patternTokens, program[:min(len(program), 400)]), sizes, flags)
	})
}

// FuzzPatternText is FuzzPatterns on any text.
func FuzzPatternText(f *testing.F) {
	f.Add(toolCallF, []byte{7}, byte(0))
	f.Fuzz(func(t *testing.T, text string, sizes []byte, flags byte) {
		checkCutting(t, text[:min(len(text), 4<<10)], sizes, flags)
	})
}

// TestPatternsRandom is FuzzPatterns on the same texts each time.
func TestPatternsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 5))
	seen := map[string]int{}
	for range 2000 {
		program := make([]byte, r.IntN(24))
		for i := range program {
			program[i] = byte(r.IntN(256))
		}
		flags := byte(r.IntN(256))
		checkCutting(t, tokenText(patternTokens, program), []byte{byte(r.IntN(9))}, flags)
		for _, s := range scan(t, patternOptions(flags), usetool.AbortError, tokenText(patternTokens, program)) {
			if s.Pattern != "" {
				seen[string(s.Kind)+string(s.Reason)]++
			}
		}
	}
	for _, kind := range []string{"block", "undeclared", "abortednested", "abortedmalformed", "abortedtoo_large", "abortederror"} {
		if seen[kind] == 0 {
			t.Errorf("no text has a segment %q of a pattern", kind)
		}
	}
}

// TestPatternMessages: a message ends with Finish; the next one begins anew.
func TestPatternMessages(t *testing.T) {
	s := NewScanner(ScannerOptions{Patterns: testPatterns()})
	var segments []usetool.Segment
	for _, message := range []string{"a @f(", ")<tool_", "call>", "@g()"} {
		segments = s.Finish(usetool.AbortError, s.Feed(message, segments))
	}
	if got, want := show(segments), "|a | +at !error |@f()<tool_call>| +at [at g]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	checkScanned(t, testPatterns(), "a @f()<tool_call>@g()", segments)
}

// TestPatternCost: a text costs each reader one look at a byte at most, and few
// allocations where it has no blocks.
func TestPatternCost(t *testing.T) {
	const size = 64 << 10
	for _, unit := range []string{"text ", "<", "<tool_call", "<tool_call>", `<tool_call>{"`, "@f(", "@", "«", "\xc2"} {
		counted := &counter{}
		opts := ScannerOptions{Patterns: append(testPatterns(), NamedPattern{Name: "counter", Pattern: counted})}
		opts.MaxBlock = 4 << 10
		text := strings.Repeat(unit, size/len(unit))
		for _, cut := range []int{7, 4096, len(text)} {
			s := NewScanner(opts)
			var out []usetool.Segment
			for _, piece := range pieces(text, cut) {
				out = s.Feed(piece, out[:0])
			}
			s.Finish("", out)
			if c := cap(s.patterns.held); c > 4*opts.MaxBlock {
				t.Errorf("%q in pieces of %d: the buffer has grown to %d bytes", unit, cut, c)
			}
		}
		if counted.bytes > 3*size {
			t.Errorf("%q: %d bytes were read of three times %d", unit, counted.bytes, size)
		}
	}
}

// counter is a pattern whose blocks never end. It counts the bytes that it reads.
type counter struct{ bytes int }

func (*counter) Opener() string                       { return "«" + "<" }
func (c *counter) Begin() BlockReader                 { return c }
func (*counter) Parse(string) (string, string, error) { return "", "", nil }
func (c *counter) Next(byte) BlockState               { c.bytes++; return BlockOpen }

// TestCheckPatterns: patterns that cannot work are refused.
func TestCheckPatterns(t *testing.T) {
	for problem, patterns := range map[string][]NamedPattern{
		"it has no name":                {{Pattern: atPattern{}}},
		"the name is taken":             {{Name: "a", Pattern: atPattern{}}, {Name: "a", Pattern: quoted{}}},
		`"use_tool": the name is taken`: {{Name: UseToolPattern, Pattern: atPattern{}}},
		"it is nil":                     {{Name: "a"}},
		"its opener is empty":           {{Name: "a", Pattern: opener("")}},
		"longer than 64 bytes":          {{Name: "a", Pattern: opener(strings.Repeat("x", MaxOpener+1))}},
		"its opener is not UTF-8":       {{Name: "a", Pattern: opener("\xff")}},
	} {
		err := CheckPatterns(patterns)
		if !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
	if err := CheckPatterns(testPatterns()); err != nil {
		t.Error(err)
	}
	// An opener of the largest size works, also in a fence and in pieces.
	long := opener(strings.Repeat("x", MaxOpener))
	opts := ScannerOptions{Patterns: []NamedPattern{{Name: "long", Pattern: long}}}
	opts.SkipFenced = true
	text := "y" + string(long) + "f() ```\n" + "\n```\n" + string(long) + "f()"
	want := "|y| +long [long f] | ```\n\n```\n" + string(long) + "f()|"
	if got := show(scan(t, opts, "", text)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	sameScan(t, opts, text, 1)
}

// opener is an atPattern with another opener.
type opener string

func (o opener) Opener() string   { return string(o) }
func (opener) Begin() BlockReader { return &atReader{} }

func (o opener) Parse(block string) (name, arguments string, err error) {
	return atPattern{}.Parse("@" + strings.TrimPrefix(block, string(o)))
}

func TestToolCall(t *testing.T) {
	for block, want := range map[string]string{
		`{"name":"f","arguments":{"a": 1}}`:               `f {"a": 1}`,
		"\n{\"arguments\": {} , \"name\": \" f \"}\r\n\t": `f {}`,
		`{"name":"f"}`: `f {}`,
		`{"name":"f","arguments":{"a":1.5e+3,"b":[true,false,null,{"c":"\u0041\\\""}]}}`: `f {"a":1.5e+3,"b":[true,false,null,{"c":"\u0041\\\""}]}`,
		`{"name":"f","arguments":{"a":{"b":{"c":[[[]]]}}}}`:                              `f {"a":{"b":{"c":[[[]]]}}}`,
		`{"name":"f","arguments":null}`:                                                  `f {}`,
		`{"name":"f","arguments":"{\"a\": \"\\u00e9\"}"}`:                                `f {"a": "\u00e9"}`,
		`{"name":"f","arguments":""}`:                                                    `f {}`,
		`{"id":"1","type":"function","name":"f","arguments":{}}`:                         `f {}`,
		`{"name":"f","arguments":{"s":"</tool_call><tool_call>"}}`:                       `f {"s":"</tool_call><tool_call>"}`,
		`{"name":"f","arguments":[1]}`:                                                   "malformed",
		`{"name":"f","arguments":"x"}`:                                                   "malformed",
		`{"name":"f","arguments":{},"parameters":{"a":1}}`:                               "malformed",
		`{"name":1}`:       "malformed",
		`{"name":""}`:      "malformed",
		`{"arguments":{}}`: "malformed",
		`{"name":"f",}`:    "malformed",
		`{"name":"f"} x`:   "malformed",
		`{"name":"f"}{}`:   "malformed",
		`["f"]`:            "malformed",
		``:                 "malformed",
		`{"name":"` + strings.Repeat("f", maxNameBytes+1) + `"}`: "malformed",
		"{\"name\":\"f\n\"}": "malformed",
	} {
		text := "before <tool_call>" + block + "</tool_call> behind"
		opts := ScannerOptions{Patterns: []NamedPattern{{Name: "tool_call", Pattern: toolCall}}}
		got := ""
		for _, s := range scan(t, opts, "", text) {
			switch s.Kind {
			case usetool.SegmentBlock:
				got += s.Name + " " + s.Arguments
			case usetool.SegmentAborted:
				got += string(s.Reason)
				if s.Err == nil {
					t.Errorf("%s: no error", block)
				}
			}
		}
		if got != want {
			t.Errorf("%.200s: %s, want %s", block, got, want)
		}
		sameScan(t, opts, text, 1)
	}
	// A sentence about the tag does not hold the text back.
	s := NewScanner(ScannerOptions{Patterns: testPatterns()})
	s.Feed("The tag <tool_call> begins a call.", nil)
	if s.Held() != 0 {
		t.Errorf("%d bytes are held", s.Held())
	}
}
