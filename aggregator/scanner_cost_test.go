package aggregator

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

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

// Without a broken JSON value each byte is looked at just once.
func TestScannerLooksOnce(t *testing.T) {
	text := strings.Repeat("text < "+useTool("a", `<args>{"a":"</use_tool>"}</args>`)+"<use_tool>", 50)
	for _, size := range []int{1, 5, len(text)} {
		s := NewScanner(ScannerOptions{})
		for _, piece := range pieces(text, size) {
			s.Feed(piece, nil)
		}
		s.Finish("", nil)
		if s.useTool.examined != int64(len(text)) {
			t.Errorf("pieces of %d: %d looks at %d bytes", size, s.useTool.examined, len(text))
		}
	}
}

// Behind a broken value the text from its first tag on is looked at again, be
// it held or new.
func TestScannerLooksAgain(t *testing.T) {
	const block, tail = `<use_tool><args>{"a":"</use_tool>`, "0123456789\n"
	for _, size := range []int{1, 5, len(block), len(block) + len(tail)} {
		s := NewScanner(ScannerOptions{})
		for _, piece := range pieces(block+tail, size) {
			s.Feed(piece, nil)
		}
		if want := int64(len(block) + 2*len(tail)); s.useTool.examined != want {
			t.Errorf("pieces of %d: %d looks, want %d", size, s.useTool.examined, want)
		}
	}
}

// A call whose arguments come as 117,000 one-character pieces.
func TestScannerManySmallPieces(t *testing.T) {
	value := `{"a":"` + strings.Repeat("</use_tool>", 117_000/11) + `"}`
	text := useTool("a", "<args>"+value+"</args>")
	segments := scan(t, ScannerOptions{}, "", pieces(text, 1)...)
	if got, want := show(segments), "+ [a "+value+"]"; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// benchmarkScan feeds a text in pieces of size bytes.
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
