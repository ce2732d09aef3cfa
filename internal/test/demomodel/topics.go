package demomodel

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed texts/*.md
var files embed.FS

// variant is one of the answers to a kind of question.
type variant struct {
	keys []string // a question with one of these wants this variant
	text string
}

// topic is a kind of question.
type topic struct {
	name     string
	asked    *regexp.Regexp
	variants []variant
}

// topics are in the order in which they are looked for.
var topics = []*topic{
	load("essay", `\b(essay|long|article|lengthy|\d{3,} words)\b`),
	load("abilities", `what (can|do) you do|your (abilities|features|skills)|how can you help|^capabilities|who are you|what are you`),
	load("book", `\b(book|novel|read next)\b`),
	load("joke", `\b(joke|funny|laugh)`),
	load("poem", `\b(poem|haiku|limerick|verse|rhyme|sonnet|lyrics)`),
	load("story", `\b(story|tale|fairy)`),
	load("table", `\b(table|tabular|spreadsheet|matrix|overview)\b`),
	load("picture", `\b(picture|image|draw|drawing|svg|logo|ascii art)\b`),
	load("formula", `\b(formula|math|maths|equation|latex|theorem|integral)\b`),
	load("explain", `\b(explain|why|how does|how do|how is|what is|what's|what are|describe)\b`),
	load("code", `\b(code|function|program|snippet|class|golang|python|javascript|typescript|rust|sql|html|css|bash|shell|regex|caddyfile)\b|\bin (go|js|c|java|ruby|php)\b|c\+\+|\bjava\b`),
	load("list", `\b(list|bullets?|steps|checklist|ideas|tips|to-?do|top \d+|recipe)\b`),
	load("greeting", `^(hello|hi|hey|hallo|hola|bonjour|salut|ciao|olá|servus|moin|good (morning|evening|day)|test|ping|yo)\b|^(привет|你好|您好|こんにちは|안녕|مرحبا|नमस्ते|שלום)`),
}

var (
	thanks  = load("thanks", `\b(thanks|thank you|thx|cheers|merci|danke|gracias)\b`)
	unknown = load("unknown", "")
)

// answer answers a question of the topic.
func (t *topic) answer(q question) string {
	if !t.asked.MatchString(q.short) {
		return ""
	}
	text, _ := t.pick(q)
	return text
}

// load reads the variants of a topic. A line "keys:" before one has its keys.
func load(name, asked string) *topic {
	text, err := files.ReadFile("texts/" + name + ".md")
	if err != nil {
		panic(err)
	}
	t := &topic{name: name, asked: regexp.MustCompile(asked)}
	for part := range strings.SplitSeq(string(text), "\n===\n") {
		part = strings.TrimSpace(part)
		var v variant
		if keys, rest, ok := strings.Cut(part, "\n"); ok && strings.HasPrefix(keys, "keys: ") {
			v.keys, part = strings.Split(keys[len("keys: "):], ", "), strings.TrimSpace(rest)
		}
		v.text = part
		t.variants = append(t.variants, v)
	}
	return t
}

// wordStart reports whether key begins a word of text; one of up to three letters has to be a word.
func wordStart(text, key string) bool {
	pattern := `(^|[^a-z0-9_])` + regexp.QuoteMeta(key)
	if len(key) <= 3 {
		pattern += `([^a-z0-9_]|$)`
	}
	found, err := regexp.MatchString(pattern, text)
	return found && err == nil
}

// pick returns a variant that the question names or, if it names none, any. As long as there are
// others, it is one that was not said before.
func (t *topic) pick(q question) (text string, named bool) {
	candidates := slices.DeleteFunc(slices.Clone(t.variants), func(v variant) bool {
		return !slices.ContainsFunc(v.keys, func(key string) bool { return wordStart(q.short, key) })
	})
	named = len(candidates) > 0
	if !named {
		candidates = t.variants
	}
	said := q.req.Said("assistant")
	first := q.draw(len(candidates))
	fill := strings.NewReplacer("{topic}", q.topic(), "{login}", loginHint)
	for i := range candidates {
		text = fill.Replace(candidates[(first+i)%len(candidates)].text)
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, text) }) {
			return text, named
		}
	}
	return fill.Replace(candidates[first].text), named
}

// another matches a wish for more of the same.
var another = regexp.MustCompile(`^(and )?(please )?(another|one more|more|again|next|continue|go on)\b.{0,20}$`)

// topical answers with a text that is prepared about the topic.
func topical(q question) string {
	if earlier := q.earlier(); len(earlier) > 0 && another.MatchString(q.short) {
		for _, text := range slices.Backward(earlier) {
			if lower := strings.ToLower(ends(text)); !another.MatchString(lower) {
				q.short = lower
				break
			}
		}
	}
	for _, t := range topics {
		if !t.asked.MatchString(q.short) {
			continue
		}
		if text, named := t.pick(q); named || t.name != "explain" { // which has no answer that fits any question
			return text
		}
	}
	return ""
}

// aboutNothing answers a question without a word.
func aboutNothing(q question) string {
	switch {
	case q.text == "":
		return "There was no text to answer. Ask me something, such as *\"a table of planets\"*."
	case q.topic() == "":
		return fmt.Sprintf("%s to you, too! In words I can do more: try *\"a joke\"*, or *\"some Go code\"*.", plain(abridge(q.text, 20)))
	}
	return ""
}

// plain returns a text in which nothing is Markdown or HTML.
func plain(text string) string {
	return regexp.MustCompile("[\\\\`*_{}\\[\\]()<>#+!|~&$-]").ReplaceAllString(text, `\$0`)
}
