package scriptedmodel

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	quotedPattern = regexp.MustCompile(`["“„«]([^"“”„«»]+)["”»]`)
	aboutPattern  = regexp.MustCompile(`(?i)\b(?:about|for|in|at|of|on|to)\s+(\S.*)`)
	articles      = regexp.MustCompile(`(?i)^(?:the|a|an|my|me|notes|information)\s+`)
	politeness    = regexp.MustCompile(`(?i)[\s,]+(?:for me|please)[\s.?!]*$`)
)

// subject returns what a question is about: what it puts into quotation marks,
// else what follows "about", "for", "in" and the like, else all of it.
func subject(text string) string {
	const maxRunes, maxLine = 120, 500
	if m := quotedPattern.FindStringSubmatch(text); m != nil {
		return abridge(m[1], maxRunes)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = politeness.ReplaceAllString(abridge(line, maxLine), "")
	for {
		m := aboutPattern.FindStringSubmatch(line)
		if m == nil {
			break
		}
		line = m[1]
	}
	line = articles.ReplaceAllString(strings.TrimSpace(line), "")
	return abridge(strings.TrimRight(line, " .?!,;:"), maxRunes)
}

// content returns what is to be written: what follows a colon, else what is in
// quotation marks.
func content(text string) string {
	if _, after, ok := strings.Cut(text, ": "); ok {
		return strings.TrimSpace(after)
	}
	if m := quotedPattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// wordsOf returns the words of a text or of a name such as getWeather or
// get_weather, in lower case.
func wordsOf(text string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			continue
		}
		if unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]) {
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}
