package aggregator

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

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

// joined joins adjacent segments of text.
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

// tokenText makes a text of one token a byte.
func tokenText(tokens []string, program []byte) string {
	var text strings.Builder
	for _, b := range program {
		text.WriteString(tokens[int(b)%len(tokens)])
	}
	return text.String()
}
