package usetool

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The grammar of the client that reads the blocks, stated again for the tests: in
// another way than the package's own reader, by regular expressions over the whole
// text, and as willing to see a tag as a reader can be.

var (
	clientBlock = regexp.MustCompile(`(?s)<use_tool>(.*?)(?:</use_tool>|$)`)
	clientName  = regexp.MustCompile(`(?s)<name>(.*?)</name>`)
	clientTag   = regexp.MustCompile(`<([^<>/][^<>]*)>`)
	clientAny   = regexp.MustCompile(`<[^<>]+>`)
)

// clientCall is a block as the client understands it.
type clientCall struct {
	name   string
	params map[string]any
}

// clientRead reads all blocks of a text. A block without a name is none.
func clientRead(text string) []clientCall {
	var calls []clientCall
	for _, m := range clientBlock.FindAllStringSubmatch(text, -1) {
		name := clientName.FindStringSubmatchIndex(m[1])
		if name == nil || strings.TrimSpace(m[1][name[2]:name[3]]) == "" {
			continue
		}
		call := clientCall{name: strings.TrimSpace(m[1][name[2]:name[3]]), params: map[string]any{}}
		for _, p := range clientPairs(m[1][name[1]:]) {
			call.params[p[0]] = clientValue(p[1])
		}
		calls = append(calls, call)
	}
	return calls
}

// clientPairs finds what stands between equal tags, left to right.
func clientPairs(text string) [][2]string {
	var pairs [][2]string
	for {
		m := clientTag.FindStringSubmatchIndex(text)
		if m == nil {
			return pairs
		}
		tag, rest := text[m[2]:m[3]], text[m[1]:]
		value, after, closed := strings.Cut(rest, "</"+tag+">")
		if !closed {
			text = rest
			continue
		}
		pairs = append(pairs, [2]string{tag, value})
		text = after
	}
}

// clientValue reads the value of a parameter.
func clientValue(text string) any {
	text = strings.TrimSpace(text)
	if !clientAny.MatchString(text) {
		var value any
		container := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") ||
			strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")
		if container && json.Unmarshal([]byte(text), &value) == nil {
			return value
		}
		return text
	}
	pairs := clientPairs(text)
	if len(pairs) == 0 {
		return text
	}
	var list []any
	nested := map[string]any{}
	for _, p := range pairs {
		if p[0] == "item" {
			list = append(list, clientValue(p[1]))
		}
		nested[p[0]] = clientValue(p[1])
	}
	if list != nil {
		return list
	}
	return nested
}
