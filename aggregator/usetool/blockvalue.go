package usetool

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// maxTagDepth limits the nesting of tags within a parameter. Deeper tags are text.
const maxTagDepth = 8

// itemTag is the tag of an element of a list.
const itemTag = "item"

// tag is a part of a text from '<' to the next '>', without another '<' between them.
type tag struct {
	start, end int
	name       string // without the slash of a closer
	closer     bool
}

// tagsOf lists the tags of a text in order, in one pass.
func tagsOf(text string) []tag {
	var tags []tag
	open := -1
	for i := range len(text) {
		switch text[i] {
		case '<':
			open = i
		case '>':
			if open >= 0 && i > open+1 {
				name, closer := strings.CutPrefix(text[open+1:i], "/")
				tags = append(tags, tag{start: open, end: i + 1, name: name, closer: closer})
			}
			open = -1
		}
	}
	return tags
}

// markup is a text with its tags and their pairs, which are found in one pass: the cost is
// linear also for a text of openers only, or of nested pairs.
type markup struct {
	text  string
	tags  []tag
	match []int // for an opener the next closer of its name; 0: there is none
}

// readMarkup finds the tags of a text and the closer of each. An opener with
// attributes, or with a slash, has none: it is text.
func readMarkup(text string) markup {
	m := markup{text: text, tags: tagsOf(text)}
	m.match = make([]int, len(m.tags))
	next := make(map[string]int)
	for i := len(m.tags) - 1; i >= 0; i-- {
		t := m.tags[i]
		switch {
		case t.closer:
			next[t.name] = i
		case !strings.ContainsAny(t.name, " \t\r\n/"):
			m.match[i] = next[t.name]
		}
	}
	return m
}

// pair is one <tag>value</tag> of a markup, by the places of its tags.
type pair struct {
	opener, closer int
}

// pairs lists the pairs among the tags from first to before last, one level deep.
func (m *markup) pairs(first, last int) []pair {
	var pairs []pair
	for i := first; i < last; i++ {
		if closer := m.match[i]; closer > 0 && closer < last {
			pairs = append(pairs, pair{opener: i, closer: closer})
			i = closer
		}
	}
	return pairs
}

// parameterObject writes the pairs of a text as a JSON object.
func parameterObject(text string) string {
	m := readMarkup(text)
	var out strings.Builder
	m.writeObject(&out, m.pairs(0, len(m.tags)), 0)
	return out.String()
}

// writeObject writes pairs as a JSON object. A tag that occurs twice has its first place
// and its last value.
func (m *markup) writeObject(out *strings.Builder, pairs []pair, depth int) {
	place := make(map[string]int, len(pairs))
	var unique []pair
	for _, p := range pairs {
		name := m.tags[p.opener].name
		at, known := place[name]
		if !known {
			place[name] = len(unique)
			unique = append(unique, p)
			continue
		}
		unique[at] = p
	}
	out.WriteByte('{')
	for i, p := range unique {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(jsontext.Quote(m.tags[p.opener].name))
		out.WriteByte(':')
		m.writeValue(out, p, depth+1)
	}
	out.WriteByte('}')
}

// writeValue writes the text between two tags as JSON, as the Obsidian client reads it. The
// text is trimmed. It is a list or an object if it has pairs of tags, the JSON array or
// object that it is if it has no tags, else a string.
func (m *markup) writeValue(out *strings.Builder, p pair, depth int) {
	text := strings.TrimSpace(m.text[m.tags[p.opener].end:m.tags[p.closer].start])
	if p.closer == p.opener+1 && isJSONContainer(text) {
		out.WriteString(text)
		return
	}
	var inner []pair
	if depth < maxTagDepth {
		inner = m.pairs(p.opener+1, p.closer)
	}
	switch items := m.items(inner); {
	case len(items) > 0:
		m.writeList(out, items, depth)
	case len(inner) > 0:
		m.writeObject(out, inner, depth)
	default:
		out.WriteString(jsontext.Quote(text))
	}
}

// items picks the elements of a list.
func (m *markup) items(pairs []pair) []pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return m.tags[p.opener].name != itemTag })
}

// writeList writes pairs as a JSON array.
func (m *markup) writeList(out *strings.Builder, items []pair, depth int) {
	out.WriteByte('[')
	for i, p := range items {
		if i > 0 {
			out.WriteByte(',')
		}
		m.writeValue(out, p, depth+1)
	}
	out.WriteByte(']')
}

// isJSONContainer reports whether a text is a whole JSON array or object.
func isJSONContainer(text string) bool {
	return (strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")) && json.Valid([]byte(text))
}
