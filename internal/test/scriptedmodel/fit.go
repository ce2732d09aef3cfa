package scriptedmodel

import (
	"slices"
	"strings"
)

// topics are words that mean the same to the demo model, whether in a question
// or in the name of a tool.
var topics = [][]string{
	{"weather", "forecast", "temperature", "rain"},
	{"search", "find", "look", "lookup", "query"},
	{"time", "clock", "date", "today", "now"},
	{"read", "open", "show", "view"},
	{"write", "save", "create", "append"},
	{"list", "tree", "files"},
	{"calculate", "calculator", "compute", "math", "sum", "add"},
	{"mail", "email", "send"},
	{"web", "internet", "online"},
}

// idle words in the name of a tool say nothing of its purpose.
var idle = []string{"get", "to", "the", "in", "of", "a", "tool", "run", "do", "current", "local", "my", "file"}

const (
	nameScore = 100 // the question has the tool's name
	wordScore = 10  // a word of the name, or one of the same topic
)

// bestTool returns the index of the name that fits the question best, or -1 if
// none fits at all. The first of several wins.
func bestTool(question string, names []string) int {
	lower := strings.ToLower(question)
	words := wordsOf(question)
	best, bestScore := -1, 0
	for i, name := range names {
		score := 0
		if strings.Contains(lower, strings.ToLower(name)) {
			score = nameScore
		}
		for _, w := range wordsOf(name) {
			if !slices.Contains(idle, w) && mentions(words, w) {
				score += wordScore
			}
		}
		if score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// mentions reports whether one of words is w, or of the same topic.
func mentions(words []string, w string) bool {
	if slices.Contains(words, w) {
		return true
	}
	for _, topic := range topics {
		if slices.Contains(topic, w) && slices.ContainsFunc(words, func(o string) bool { return slices.Contains(topic, o) }) {
			return true
		}
	}
	return false
}
