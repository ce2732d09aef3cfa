package aggregator

import (
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// The reference is the block grammar written a second time, for a whole text at once: regular expressions
// and as many passes as it likes. It shares nothing with the scanner but usetool.Parse and the constants.

var (
	refOpener = regexp.MustCompile(`<use_tool(?:/|[ \t\r\n][^<>]*)?>`)
	refInner  = regexp.MustCompile(`<use_tool(?:/|[ \t\r\n][^<>]*)?>|</use_tool>|<args>[ \t\r\n]*["{\[]`)

	// (?s) and the byte class make a string's bytes any, valid UTF-8 or not.
	refString = regexp.MustCompile(`(?s)^"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*`)
	refBare   = regexp.MustCompile(`^[-+.0-9Eaeflnrstu]+`)

	refOpeningFence = regexp.MustCompile("^ {0,3}(`{3,}[^`]*|~{3,}.*)$")
	refFenceMarks   = regexp.MustCompile("^ {0,3}(`+|~+)[ \t]*$")
	refLineEnd      = regexp.MustCompile(`\r\n|\r|\n`)
)

type reference struct {
	opts     ScannerOptions
	text     string
	segments []usetool.Segment
	given    int // bytes given out
	markdown int // where the Markdown begins: behind the last whole block
	begun    int // where a tag may have begun: behind the last JSON value
}

// refScan returns the segments of a message, adjacent text joined.
func refScan(text string, opts ScannerOptions, reason usetool.AbortReason) []usetool.Segment {
	r := &reference{opts: opts, text: text}
	if r.opts.MaxBlock <= 0 {
		r.opts.MaxBlock = DefaultMaxBlock
	}
	for from := 0; ; {
		start, end := r.nextOpener(from)
		if start < 0 {
			break
		}
		r.give(start)
		r.notice(usetool.Segment{Kind: usetool.SegmentStarted})
		from = r.block(start, end, reason)
	}
	r.give(len(text))
	return r.segments
}

// nextOpener finds the first opening tag at or behind from that is not fenced.
func (r *reference) nextOpener(from int) (start, end int) {
	for _, m := range refOpener.FindAllStringIndex(r.text[from:], -1) {
		start, end = from+m[0], from+m[1]
		if end-start <= usetool.MaxOpener && !r.fenced(start) {
			return start, end
		}
	}
	return -1, -1
}

// block reads the block whose opening tag is text[start:end], and returns where to look for the next one.
func (r *reference) block(start, end int, reason usetool.AbortReason) int {
	if strings.HasSuffix(r.text[start:end], "/>") {
		r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: usetool.AbortMalformed, Err: errSelfClosed})
		return end
	}
	limit := start + r.opts.MaxBlock
	if end > limit {
		r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: usetool.AbortTooLarge})
		return end
	}
	tagStart, tagEnd := r.endOfBlock(end, min(limit, len(r.text)))
	switch {
	case tagStart >= 0 && r.text[tagStart+1] == '/':
		r.whole(start, tagEnd)
		return tagEnd
	case tagStart >= 0:
		r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: usetool.AbortNested})
		return tagStart
	case len(r.text) <= limit:
		r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: reason})
		return len(r.text)
	}
	r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: usetool.AbortTooLarge})
	last := strings.LastIndexByte(r.text[r.begun:limit+1], '<')
	if last < 0 || strings.Contains(r.text[r.begun+last:limit], ">") {
		return limit
	}
	return r.begun + last
}

// endOfBlock finds the tag that ends a block: the first one, from the given
// place on, that is complete at the limit and in no JSON string.
func (r *reference) endOfBlock(from, limit int) (start, end int) {
	argsFrom := from
	r.begun = from
	for {
		start, end = r.innerTag(from, argsFrom, limit)
		if start < 0 || !strings.HasPrefix(r.text[start:], usetool.ArgsOpener) {
			return start, end
		}
		valueEnd, valid := refValue(r.text[:limit], end-1)
		if valid {
			from, argsFrom, r.begun = valueEnd, valueEnd, valueEnd
		} else {
			// No JSON: its tags count, save <args>.
			from, argsFrom = end-1, valueEnd
		}
	}
}

// innerTag finds the next tag that matters in a block, or the beginning of a
// JSON value, which counts from argsFrom on.
func (r *reference) innerTag(from, argsFrom, limit int) (start, end int) {
	for _, m := range refInner.FindAllStringIndex(r.text[from:], -1) {
		start, end = from+m[0], from+m[1]
		tag := r.text[start:end]
		switch {
		case strings.HasPrefix(tag, usetool.ArgsOpener):
			if start < argsFrom || end > limit {
				continue
			}
		case strings.HasSuffix(tag, "/>"), end > limit, end-start > usetool.MaxOpener:
			continue
		}
		return start, end
	}
	return -1, -1
}

// refValue reads the JSON value at text[from:]. If it is one, end is behind it;
// else end is where that shows.
func refValue(text string, from int) (end int, valid bool) {
	last := "" // the last token: an opening or separating one, "v"alue or "b"are
	for depth, i := 0, from; i < len(text); {
		switch b := text[i]; {
		case strings.IndexByte(" \t\r\n", b) >= 0:
			i++
			continue
		case b == '"':
			body := refString.FindString(text[i:])
			stop := i + len(body)
			switch {
			case last == "v" || last == "b":
				return i, false
			case stop == len(text) || text[stop] != '"':
				return stop, false
			}
			i, last = stop+1, "v"
		case b == '{' || b == '[':
			i, last, depth = i+1, "{", depth+1
		case b == '}' || b == ']':
			i, last, depth = i+1, "v", depth-1
		case b == ',' || b == ':':
			i, last = i+1, ","
		default:
			bare := refBare.FindString(text[i:])
			if bare == "" || last == "v" {
				return i, false
			}
			i, last = i+len(bare), "b"
		}
		if depth == 0 {
			return i, true
		}
	}
	return len(text), false
}

func (r *reference) whole(start, end int) {
	block := r.text[start:end]
	name, arguments, err := usetool.Parse(block)
	switch {
	case err != nil:
		r.notice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: usetool.AbortMalformed, Err: err})
	case r.opts.Accept != nil && !r.opts.Accept(name):
		r.notice(usetool.Segment{Kind: usetool.SegmentUndeclared, Name: name})
	default:
		r.notice(usetool.Segment{Kind: usetool.SegmentBlock, Text: block, Name: name, Arguments: arguments})
		r.given, r.markdown = end, end
	}
}

// fenced reports whether text[at] stands in a fenced code block.
func (r *reference) fenced(at int) bool {
	if !r.opts.SkipFenced {
		return false
	}
	lines := refLineEnd.Split(r.text[r.markdown:at], -1)
	if r.markdown > 0 {
		lines[0] = "behind a block"
	}
	fence := ""
	for _, line := range lines[:len(lines)-1] {
		marks := refFenceMarks.FindStringSubmatch(line)
		switch {
		case fence != "" && marks != nil && strings.HasPrefix(marks[1], fence):
			fence = ""
		case fence == "" && refOpeningFence.MatchString(line):
			line = strings.TrimLeft(line, " ")
			fence = line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
		}
	}
	return fence != "" || refOpeningFence.MatchString(lines[len(lines)-1])
}

// notice adds a segment at the place that has been reached.
func (r *reference) notice(segment usetool.Segment) {
	segment.Offset = int64(r.given)
	r.segments = append(r.segments, segment)
}

// give adds the text up to end, if any is left.
func (r *reference) give(end int) {
	if end > r.given {
		r.notice(usetool.Segment{Kind: usetool.SegmentText, Text: r.text[r.given:end]})
		r.given = end
	}
}
