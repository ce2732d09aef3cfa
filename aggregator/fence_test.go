package aggregator

import "testing"

func TestScannerFences(t *testing.T) {
	a := useTool("a", "")
	const text, block = "text", "block"
	for _, c := range []struct {
		name, before string
		want         string // what a block is behind it
	}{
		{"nothing", "", block},
		{"backquotes", "```\n", text},
		{"tildes", "~~~\n", text},
		{"behind text", "abc\n```xml\n<b>\n", text},
		{"CR LF", "abc\r\n```xml\r\n", text},
		{"CR", "abc\r```\r", text},
		{"three spaces", "   ```\n", text},
		{"four spaces", "    ```\n", block},
		{"tab", "\t```\n", block},
		{"two marks", "``\n", block},
		{"within a line", "abc ```\n", block},
		{"mixed marks", "``~\n", block},
		{"backquote behind backquotes", "```a`\n", block},
		{"code span on a line", "```a``` \n", block},
		{"backquote behind tildes", "~~~a`~\n", text},
		{"on the opening line", "```", text},
		{"in the info", "```xml ", text},
		{"in the info of tildes", "~~~ `", text},
		{"behind two marks", "``", block},
		{"closed", "```\nabc\n```\n", block},
		{"closed by more", "```\nabc\n   `````\t \n", block},
		{"closed by fewer", "````\nabc\n```\n", text},
		{"closed by fewer and a space", "````\nabc\n``` \n", text},
		{"closed by others", "```\n~~~\n", text},
		{"closed with text", "```\n``` abc\n", text},
		{"closed with text at once", "```\n```abc\n", text},
		{"closed too far in", "```\n    ```\n", text},
		{"on the closing line", "```\n``` ", text},
		{"tildes closed", "~~~~\n~~~~\n", block},
		{"too few tildes behind backquotes", "```\n```\n~~~\n~~", text},
		{"opened again", "```\n```\n```\n", text},
		{"blank lines", "\n\n```\n\n\n```\n\n", block},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, off := scanCase{name: "on", opts: ScannerOptions{SkipFenced: true}, text: c.before + a + "."}, scanCase{name: "off"}
			on.want = "|" + c.before + "| + [a {}] |.|"
			if c.before == "" {
				on.want = "+ [a {}] |.|"
			}
			off.text, off.want = on.text, on.want
			if c.want == text {
				on.want = "|" + on.text + "|"
			}
			runCases(t, []scanCase{on, off})
		})
	}
}

func TestScannerFencesAndBlocks(t *testing.T) {
	opts := ScannerOptions{SkipFenced: true, MaxBlock: 60, Accept: func(name string) bool { return name != "no" }}
	a, no := useTool("a", ""), useTool("no", "")
	runCases(t, []scanCase{
		{name: "fenced and not", opts: opts, text: "```\n" + a + "\n```\n" + a, want: "|```\n" + a + "\n```\n| + [a {}]"},
		{name: "malformed behind a fence", opts: opts, text: "```\n```\n<use_tool/>\n" + a,
			want: "|```\n```\n| + !malformed |<use_tool/>\n| + [a {}]"},
		{name: "self-closed", opts: opts, text: "```\n<use_tool/>\n```\n<use_tool/>",
			want: "|```\n<use_tool/>\n```\n| + !malformed |<use_tool/>|"},
		{name: "a fence in a value", opts: opts, text: useTool("a", "<x>\n```\n1</x>") + "\n" + a,
			want: "+ [a {\"x\":\"```\\n1\"}] |\n| + [a {}]"},
		{name: "no fence behind a block", opts: opts, text: a + "```\n" + a, want: "+ [a {}] |```\n| + [a {}]"},
		{name: "a fence on the next line", opts: opts, text: a + "\n```\n" + a, want: "+ [a {}] |\n```\n" + a + "|"},
		{name: "prose, then a fenced example", opts: opts, text: "Write <use_tool> so:\n```\n" + a + "\n```\n" + a,
			want: "|Write | + !nested |<use_tool> so:\n```\n" + a + "\n```\n| + [a {}]"},
		{name: "a fence in an undeclared block", opts: opts, text: useTool("no", "\n```\n") + a,
			want: "+ ?no |" + useTool("no", "\n```\n") + a + "|"},
		{name: "undeclared, then a fence", opts: opts, text: no + "\n```\n" + a, want: "+ ?no |" + no + "\n```\n" + a + "|"},
		{name: "a fence in a malformed block", opts: opts, text: "<use_tool>\n~~~\n</use_tool>\n" + a,
			want: "+ !malformed |<use_tool>\n~~~\n</use_tool>\n" + a + "|"},
		{name: "a fence in a block too large", opts: opts,
			text: "<use_tool>\n```\n12345678901234567890123456789012345678901234567890\n" + a,
			want: "+ !too_large |<use_tool>\n```\n12345678901234567890123456789012345678901234567890\n" + a + "|"},
		{name: "a fenced opener across the limit", opts: opts,
			text: "<use_tool>\n```\n1234567890123456789012345678901234567890" + a,
			want: "+ !too_large |<use_tool>\n```\n1234567890123456789012345678901234567890" + a + "|"},
		{name: "a fenced opener in a string", opts: opts, text: "<use_tool>\n```\n<args>{\"" + a + "\n```\n" + a,
			want: "+ !nested |<use_tool>\n```\n<args>{\"" + a + "\n```\n| + [a {}]"},
		{name: "a fence behind a broken value", opts: opts, text: "<use_tool><args>{\"</use_tool>\n```\n" + a,
			want: "+ !malformed |<use_tool><args>{\"</use_tool>\n```\n" + a + "|"},
		{name: "no fence behind a broken value", opts: opts, text: "<use_tool><args>{\"</use_tool>```\n" + a,
			want: "+ !malformed |<use_tool><args>{\"</use_tool>```\n| + [a {}]"},
		{name: "an opener in the info of a broken value", opts: opts,
			text: "<use_tool>\n```<args>{\"<use_tool `>\n</use_tool>",
			want: "+ !nested |<use_tool>\n```<args>{\"<use_tool `>\n</use_tool>|"},
		{name: "attributes over a fence", opts: opts, text: "<use_tool\n```\n><name>a</name></use_tool>", want: "+ [a {}]"},
	})
}
