package demomodel

import (
	"encoding/json"
	"hash/fnv"
	"regexp"
	"strings"
	"unicode"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// question is a request in the terms of the rules.
type question struct {
	req   scriptedmodel.Request
	text  string // what the user says, without what clients put before it
	short string // its beginning and its end, if it is long, in lower case

	signIn func() string
}

// maxEnds bounds the beginning, and the end, of a text in which the rules look for words, in bytes.
const maxEnds = 500

func newQuestion(req scriptedmodel.Request, text string) question {
	text = strings.TrimSpace(scriptedmodel.WithoutReminders(text))
	q := question{req: req, text: text, short: strings.ToLower(ends(text))}
	if q.req.Text.Format.Type == "" || q.req.Text.Format.Type == "text" {
		q.req.Text.Format = toldFormat(append(req.Said("developer"), req.Instructions))
	}
	return q
}

// The beginnings of the sentences with which the gateway asks for JSON that the provider does not enforce.
const (
	toldObject = "Answer with a single JSON object and nothing else"
	toldSchema = "Answer with a single JSON value that is valid by the JSON Schema below"
)

// toldFormat returns the format of the answer that instructions ask for.
func toldFormat(instructions []string) (format scriptedmodel.Format) {
	for _, text := range instructions {
		if _, after, ok := strings.Cut(text, toldSchema); ok {
			format.Type = "json_schema"
			if i := strings.Index(after, "\n\n{"); i >= 0 {
				_ = json.NewDecoder(strings.NewReader(after[i:])).Decode(&format.Schema) // empty: any JSON
			}
		} else if strings.Contains(text, toldObject) {
			format.Type = "json_object"
		}
	}
	return format
}

// ends returns the beginning and the end of a long text.
func ends(text string) string {
	if len(text) <= 2*maxEnds {
		return text
	}
	return strings.ToValidUTF8(text[:maxEnds]+"\n"+text[len(text)-maxEnds:], "")
}

// begin returns the beginning of the question.
func (q question) begin() string { return strings.ToValidUTF8(q.text[:min(len(q.text), maxEnds)], "") }

// instructions returns the beginnings of what the client has told the model, besides its questions.
func (q question) instructions() string {
	all := ends(q.req.Instructions)
	for _, text := range q.req.Said("developer") {
		all += "\n" + ends(text)
	}
	return all
}

// earlier returns what the user has said before.
func (q question) earlier() []string {
	said := q.req.Said("user")
	return said[:max(0, len(said)-1)]
}

// draw returns a number below n, which depends on the question and on the request.
func (q question) draw(n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.text))
	return (int(h.Sum32()%1000) + q.req.Number) % n
}

// fillers are words at the beginning of a question that say nothing about its topic.
var fillers = regexp.MustCompile(`(?i)^(please|can|could|would|will|you|tell|give|show|write|explain|say|me|us|about|what|who|why|where|when|how|which|is|are|was|were|do|does|did|i|to|the|a|an|and|some|hello|hi|hey|in|of|for)$`)

// topic returns a few words that name what a question is about, without any markup.
func (q question) topic() string {
	words := strings.FieldsFunc(ends(q.text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-'’", r) && !unicode.Is(unicode.M, r)
	})
	all := words
	for len(words) > 1 && fillers.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		words = all
	}
	return abridge(strings.Join(words[:min(len(words), 6)], " "), 60)
}

// abridge cuts a text after this number of runes.
func abridge(text string, runes int) string {
	n := 0
	for i := range text {
		if n == runes {
			return strings.TrimSpace(text[:i]) + "…"
		}
		n++
	}
	return text
}
