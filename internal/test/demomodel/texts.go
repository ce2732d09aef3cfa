package demomodel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var translationAsked = regexp.MustCompile(`(?s)\b(?:translate|translation of|how do (?:you|i) say|what(?:'s| is))\s+(.*?)\s*\b(?:in ?to|in|to|auf|en)\s+(french|german|spanish|italian|japanese)\b`)

// translateWords is a request for a translation whose language is not known, or is at another place.
var translateWords = regexp.MustCompile(`\btranslat`)

// phrases returns the rows of the phrase book. The first has the names of the languages.
var phrases = func() (rows [][]string) {
	text, err := files.ReadFile("texts/phrases.md")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return slices.Delete(rows, 1, 2) // the line below the names
}()

// translation translates what the phrase book has.
func translation(q question) (string, bool) {
	match := translationAsked.FindStringSubmatch(q.short)
	if match == nil {
		return "My phrase book is small:\n\n" + phraseTable(), translateWords.MatchString(q.short)
	}
	wanted := strings.Trim(match[1], " \n\"'`“”«»:.?!*")
	column := slices.IndexFunc(phrases[0], func(name string) bool { return strings.EqualFold(name, match[2]) })
	for _, row := range phrases[1:] {
		if row[0] == wanted {
			return fmt.Sprintf("**%s**\n\nThat is %s for “%s”.", row[column], phrases[0][column], row[0]), true
		}
	}
	if !translateWords.MatchString(q.short) && !strings.Contains(q.short, "say") {
		return "", false
	}
	return fmt.Sprintf("“%s” is not in my phrase book, which has:\n\n%s", plain(abridge(wanted, 80)), phraseTable()), true
}

func phraseTable() string {
	const shown = 7
	var b strings.Builder
	for i, row := range phrases[:shown] {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
		}
	}
	return strings.TrimSpace(b.String())
}

var (
	digestAsked = regexp.MustCompile(`(?i)\b(summari[sz]e|summary|tl;?dr|shorten|key points)\b[^:\n.]*[:.\n]?`)
	sentence    = regexp.MustCompile(`(?s)[^\s.!?][^.!?]{10,}?(?:[.!?]+|$)`)
)

// maxDigested bounds what is read of a text to summarize, in bytes.
const maxDigested = 100_000

// digest summarizes the rest of a question, or the last answer, by a few of its sentences.
func digest(q question) (string, bool) {
	if !digestAsked.MatchString(q.short) {
		return "", false
	}
	text := q.text[:min(len(q.text), maxDigested)]
	text = strings.TrimSpace(digestAsked.ReplaceAllString(strings.ToValidUTF8(text, ""), ""))
	if said := q.req.Said("assistant"); len(strings.Fields(text)) < 8 && len(said) > 0 {
		text = strings.TrimSuffix(said[len(said)-1], footnote)
	}
	all := sentence.FindAllString(text, -1)
	if len(strings.Fields(text)) < 8 || len(all) == 0 {
		return "Gladly: put the text behind your question, as in *\"Summarize: …\"*.", true
	}
	chosen := []string{all[0]}
	if len(all) > 2 {
		chosen = append(chosen, slices.MaxFunc(all[1:len(all)-1], func(a, b string) int { return len(a) - len(b) }))
	}
	if len(all) > 1 {
		chosen = append(chosen, all[len(all)-1])
	}
	answer := fmt.Sprintf("In short, of %d words:\n", len(strings.Fields(text)))
	for _, s := range chosen {
		answer += "\n- " + plain(abridge(strings.Join(strings.Fields(s), " "), 160))
	}
	return answer, true
}
