package usetool

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
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

// markup is a text with its tags, and the closer of each opener. One pass finds all closers, so the
// time is linear even for a text that has only openers, or nested pairs.
type markup struct {
	text     string
	tags     []tag
	closerOf []int // for an opener, the index of the next closer with its name; 0: there is none
}

// readMarkup finds the tags of a text and the closer of each opener. An opener with
// attributes, or with a slash, has no closer: it is text.
func readMarkup(text string) markup {
	m := markup{text: text, tags: tagsOf(text)}
	m.closerOf = make([]int, len(m.tags))
	next := make(map[string]int)
	for i := len(m.tags) - 1; i >= 0; i-- {
		t := m.tags[i]
		switch {
		case t.closer:
			next[t.name] = i
		case !strings.ContainsAny(t.name, " \t\r\n/"):
			m.closerOf[i] = next[t.name]
		}
	}
	return m
}

// pairs returns the indexes of the openers of the pairs <tag>value</tag> in tags[first:last]. It
// leaves out pairs inside of pairs.
func (m *markup) pairs(first, last int) []int {
	var pairs []int
	for i := first; i < last; i++ {
		if closer := m.closerOf[i]; closer > 0 && closer < last {
			pairs = append(pairs, i)
			i = closer
		}
	}
	return pairs
}

// unique returns the pairs without repeated names, in the same memory. A name that is repeated has the
// place of its first pair and the value of its last.
func (m *markup) unique(pairs []int) []int {
	place := make(map[string]int, len(pairs))
	members := pairs[:0]
	for _, p := range pairs {
		name := m.tags[p].name
		if at, known := place[name]; known {
			members[at] = p
			continue
		}
		place[name] = len(members)
		members = append(members, p)
	}
	return members
}

// write writes pairs as a JSON object or array.
func (m *markup) write(out *strings.Builder, brackets string, pairs []int, depth int) {
	out.WriteByte(brackets[0])
	for i, p := range pairs {
		if i > 0 {
			out.WriteByte(',')
		}
		if brackets == "{}" {
			out.WriteString(wirejson.Quote(m.tags[p].name))
			out.WriteByte(':')
		}
		m.writeValue(out, p, depth+1)
	}
	out.WriteByte(brackets[1])
}

// writeValue writes the trimmed text between two tags as JSON. Pairs of tags become a list of the values of
// <item> or, if there is no <item>, an object. A JSON array or object without tags stays as it is. All else
// becomes a string: also pairs with text around them, since an object would lose this text.
func (m *markup) writeValue(out *strings.Builder, opener, depth int) {
	closer := m.closerOf[opener]
	text := strings.TrimSpace(m.text[m.tags[opener].end:m.tags[closer].start])
	if closer == opener+1 && isJSONContainer(text) {
		out.WriteString(text)
		return
	}
	var inner, items []int
	if depth < maxTagDepth {
		inner = m.pairs(opener+1, closer)
	}
	if m.isMixed(inner, opener, closer) {
		inner = nil
	}
	for _, p := range inner {
		if m.tags[p].name == itemTag {
			items = append(items, p)
		}
	}
	switch {
	case items != nil:
		m.write(out, "[]", items, depth)
	case inner != nil:
		m.write(out, "{}", m.unique(inner), depth)
	default:
		out.WriteString(wirejson.Quote(text))
	}
}

// isMixed reports whether the value between two tags has text outside of the pairs.
func (m *markup) isMixed(pairs []int, opener, closer int) bool {
	from := m.tags[opener].end
	for _, p := range pairs {
		if !isBlank(m.text[from:m.tags[p].start]) {
			return true
		}
		from = m.tags[m.closerOf[p]].end
	}
	return !isBlank(m.text[from:m.tags[closer].start])
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

func isJSONContainer(text string) bool {
	return (strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")) && json.Valid([]byte(text))
}
