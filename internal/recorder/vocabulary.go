package recorder

import (
	_ "embed"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// What stays: words of the paragraphs of vocabulary.txt, digits.
const (
	word = 1 << iota
	failureWord
	tag
	number
	always // also of an entry whose texts stay, only these
)

// vocabulary has the words that may stay, with their paragraphs.
var vocabulary = func() map[string]int {
	all := make(map[string]int)
	for i, paragraph := range strings.Split(vocabularyText, "\n\n") {
		_, words, _ := strings.Cut(paragraph, "\n") // after the title
		for w := range strings.FieldsSeq(words) {
			all[w] |= 1 << i
		}
	}
	return all
}()
