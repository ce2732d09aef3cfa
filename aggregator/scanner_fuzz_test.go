package aggregator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

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

// compareScan checks that a text has the segments of the reference, whole and cut,
// and returns them.
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

// FuzzBlocks: blocks are where they say, and their arguments are JSON unless they
// were written as <args>.
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
