package demomodel

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

func (q question) wantsJSON() bool {
	return q.req.Text.Format.Type == "json_schema" || q.req.Text.Format.Type == "json_object"
}

// jsonAnswer answers with JSON, if the request wants it, which fits the schema if there is one.
func jsonAnswer(q question) string {
	if !q.wantsJSON() {
		return ""
	}
	s := decoded(q.req.Text.Format.Schema)
	if q.req.Text.Format.Type == "json_object" || s.Const == nil && s.Ref == "" && len(s.Properties)+len(s.AnyOf)+len(s.Enum)+len(s.Required) == 0 &&
		(s.kind() == "object" || s.kind() == "") { // there is nothing to fill in
		return encoded(map[string]any{"answer": q.brief(), "model": "demo"})
	}
	return encoded(newFiller(q, s).value(s, "answer", 0))
}

// arguments returns the arguments of a call for a subject, an object.
func arguments(parameters json.RawMessage, q question, subject string) string {
	s := decoded(parameters)
	s.Type = "object"
	f := newFiller(q, s)
	f.requiredOnly = true
	f.names = nil
	if subject != "" {
		f.names = []string{subject}
	}
	return encoded(f.value(s, "", 0))
}

func encoded(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // JSON's own types alone
	return strings.TrimSpace(b.String())
}

// brief returns an answer of one line.
func (q question) brief() string {
	if text := sum(q); text != "" {
		return strings.ReplaceAll(text, "**", "")
	}
	topic := q.topic()
	if topic == "" {
		topic = "nothing"
	}
	return "The demo model's answer about " + topic + "."
}

// formats are texts of the formats of strings.
var formats = map[string]func() string{
	"date":      func() string { return time.Now().Format(time.DateOnly) },
	"date-time": func() string { return time.Now().UTC().Format(time.RFC3339) },
	"time":      func() string { return time.Now().UTC().Format("15:04:05Z") },
	"duration":  func() string { return "PT15M" },
	"email":     func() string { return "ada@example.com" },
	"hostname":  func() string { return "example.com" },
	"ipv4":      func() string { return "192.0.2.1" },
	"ipv6":      func() string { return "2001:db8::1" },
	"uri":       func() string { return "https://example.com/" },
	"uuid":      func() string { return "3f2b8c1e-5d4a-4b6f-9c7d-8e9f0a1b2c3d" },
}

// patterned are texts, of which one may fit a pattern.
var patterned = []string{"demo", "Demo", "DEMO", "DE", "EUR", "abc123", "ABC-123", "12345", "1.0.0", "v1.0.0", "2026-01-31", "12:30", "#1e90ff", "a@example.com", "https://example.com/"}

// existingFile is a file that many projects have.
const existingFile = "README.md"

// samples are texts of members whose name contains the key, unless the question names something.
var samples = []struct{ key, text string }{
	{"city", "Oslo"}, {"location", "Oslo"}, {"place", "Oslo"}, {"country", "Norway"}, {"email", "ada@example.com"}, {"url", "https://example.com/"},
	{"path", existingFile}, {"file", existingFile}, {"command", "echo hello"}, {"color", "blue"}, {"currency", "EUR"}, {"language", "en"},
	{"unit", "celsius"}, {"tag", "demo"}, {"author", "Ursula K. Le Guin"}, {"name", "Ada"},
}

// namedByQuestion matches the names of members for which names in the question are taken.
var namedByQuestion = regexp.MustCompile(`name|city|location|place|country|author|person|subject|query`)

// text returns a text for a member with this name.
func (f *filler) text(s *schema, name string) string {
	if format := formats[s.Format]; format != nil {
		return format()
	}
	text, lower := f.q.brief(), strings.ToLower(name)
	switch {
	case f.requiredOnly:
		text = strings.ToValidUTF8(f.q.text[:min(len(f.q.text), 4*maxEnds)], "")
	case strings.Contains(lower, "title"):
		text = f.q.title()
	case strings.Contains(lower, "date"):
		text = formats["date"]()
	}
	for _, sample := range samples {
		if strings.Contains(lower, sample.key) {
			text = sample.text
			break
		}
	}
	if text == existingFile && f.root.Properties["content"] != nil {
		text = "demo-note.md" // the call writes it
	}
	if namedByQuestion.MatchString(lower) && len(f.names) > 0 && text != existingFile {
		text = f.names[0]
		if len(f.names) > 1 {
			f.names = f.names[1:]
		}
	}
	if pattern, err := regexp.Compile(s.Pattern); err == nil && !pattern.MatchString(text) {
		if i := slices.IndexFunc(patterned, pattern.MatchString); i >= 0 {
			return patterned[i]
		}
	}
	return text
}

// capitalized is a word within a sentence that is written like a name, or several in a row.
var capitalized = regexp.MustCompile(`(?:[\pL\d,:] ["“'(]?|["“'(])((?:\p{Lu}[\pL’-]+)(?: \p{Lu}[\pL’-]+)*)`)

// notNames are words that are written like names, and are none of a thing asked for.
var notNames = []string{"I", "JSON", "Use", "Call", "Markdown", "What", "How", "The"}

// namesIn returns the names in a text, each once.
func namesIn(text string) (names []string) {
	for _, match := range capitalized.FindAllStringSubmatch(ends(text), 20) {
		if name := match[1]; !slices.Contains(notNames, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), maxCalls)]
}
