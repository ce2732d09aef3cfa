package main

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// normalise returns the text of a recording without what differs between runs and machines.
func (a *appServer) normalise(entries []recorder.Entry) ([]byte, error) {
	n := newNormaliser(a.names)
	var text bytes.Buffer
	for _, e := range inOrder(entries) {
		switch gjson.GetBytes(e.Message, "method").Str {
		case "configWarning", "account/updated": // may come at any time
			continue
		}
		e.Message = n.message(e)
		if !gjson.ValidBytes(e.Message) {
			return nil, fmt.Errorf("no JSON is left of a message: %s", e.Message)
		}
		fmt.Fprintf(&text, `{"dir":%q,"message":%s}`+"\n", e.Dir, e.Message)
	}
	return text.Bytes(), nil
}

// normaliser replaces ids by new names in the order of their occurrence.
type normaliser struct {
	names     *strings.Replacer // paths and addresses
	ids       map[string]string
	kinds     map[string]int // number of ids of a kind
	ours      map[string]int // request ids of the client
	theirs    map[string]int // request ids of the app-server
	userAgent *regexp.Regexp
}

func newNormaliser(names map[string]string) *normaliser {
	// Longest first, since a path may begin with another.
	var pairs []string
	for _, old := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, old, names[old])
	}
	return &normaliser{
		names:     strings.NewReplacer(pairs...),
		ids:       make(map[string]string),
		kinds:     make(map[string]int),
		ours:      make(map[string]int),
		theirs:    make(map[string]int),
		userAgent: regexp.MustCompile(`^([^/]+/[0-9.]+).*$`),
	}
}

func (n *normaliser) message(e recorder.Entry) []byte {
	var out strings.Builder
	n.value(&out, place{}, gjson.ParseBytes(e.Message))
	m := gjson.Parse(out.String())
	id := m.Get("id")
	if !id.Exists() {
		return []byte(out.String())
	}
	// A message's id is the requester's: the client counts from 1, the app-server from 0.
	spaces, first := n.ours, 1
	if (e.Dir == recorder.FromServer) == m.Get("method").Exists() {
		spaces, first = n.theirs, 0
	}
	number, known := spaces[id.Raw]
	if !known {
		number = first + len(spaces)
		spaces[id.Raw] = number
	}
	return []byte(strings.Replace(out.String(), `"id":`+id.Raw, `"id":`+strconv.Itoa(number), 1))
}

type place struct{ parent, key string }

func (n *normaliser) value(out *strings.Builder, at place, v gjson.Result) {
	switch {
	case v.IsObject():
		out.WriteByte('{')
		first := true
		v.ForEach(func(key, member gjson.Result) bool {
			separate(out, &first)
			out.WriteString(wirejson.Quote(key.Str) + ":")
			n.value(out, place{at.key, key.Str}, member)
			return true
		})
		out.WriteByte('}')
	case v.IsArray():
		out.WriteByte('[')
		first := true
		v.ForEach(func(_, element gjson.Result) bool {
			separate(out, &first)
			n.value(out, at, element)
			return true
		})
		out.WriteByte(']')
	case v.Type == gjson.Number && isTime(at.key):
		out.WriteByte('0')
	case v.Type == gjson.String:
		out.WriteString(wirejson.Quote(n.text(at, v.Str)))
	default:
		out.WriteString(v.Raw)
	}
}

func separate(out *strings.Builder, first *bool) {
	if !*first {
		out.WriteByte(',')
	}
	*first = false
}

// isTime reports whether a member is a point in time or a duration.
func isTime(key string) bool {
	return strings.HasSuffix(key, "At") || strings.HasSuffix(key, "AtMs") || key == "create_time" || key == "durationMs"
}

// text returns a string with a new name for an id, by its place, or with the names in it replaced.
func (n *normaliser) text(at place, text string) string {
	if at.key == "userAgent" {
		return n.userAgent.ReplaceAllString(text, "$1 (recorded)")
	}
	if isID(at.key) && made.MatchString(text) {
		return n.id(at, text)
	}
	return resetTime.ReplaceAllString(n.names.Replace(text), "try again at 12:00 PM.")
}

// resetTime is the end of a limit, as Codex tells it.
var resetTime = regexp.MustCompile(`try again at [^.]*\.`)

func isID(key string) bool {
	return key == "id" || strings.HasSuffix(key, "Id") || strings.HasSuffix(key, "_id")
}

// made matches ids of Codex or the model, with a prefix or UUIDs. Others are the client's.
var made = regexp.MustCompile(`^(?:(msg|rs|fc|fco|call|resp)_.+|[0-9a-f]{8}-[0-9a-f-]{27})$`)

// id returns the new name of an id, which begins with its kind.
func (n *normaliser) id(at place, id string) string {
	if name, known := n.ids[id]; known {
		return name
	}
	kind := made.FindStringSubmatch(id)[1]
	switch {
	case kind != "":
	case at.key == "threadId" || at.parent == "thread":
		kind = "thread"
	case at.key == "turnId" || at.parent == "turn":
		kind = "turn"
	default:
		kind = "item"
	}
	n.kinds[kind]++
	n.ids[id] = fmt.Sprintf("%s-%d", kind, n.kinds[kind])
	return n.ids[id]
}
