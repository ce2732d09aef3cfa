package scriptedmodel

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

var (
	factPattern   = regexp.MustCompile(`FACT ([\w-]+) = ([\w-]+)`)
	recallPattern = regexp.MustCompile(`(?m)^\s*RECALL ([\w-]+)\s*$`)
)

// allFacts is what RECALL asks for to get all facts.
const allFacts = "ALL"

// summaryBytes is the fact that is the least length of summaries, maxSummary the largest one of these.
const (
	summaryBytes = "summary_bytes"
	maxSummary   = 1 << 20
)

// summaryRequests are in the messages that ask for a summary: of the gateway, Codex, Claude Code.
var summaryRequests = []string{
	prompt.SummaryRequest, "CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation",
}

// AsksForSummary reports whether the user's last message asks for a summary of the conversation.
func (r Request) AsksForSummary() bool {
	text := r.UserText()
	return slices.ContainsFunc(summaryRequests, func(part string) bool { return strings.Contains(text, part) })
}

// Facts returns the newest values of the facts in what the model was sent.
func (r Request) Facts() map[string]string {
	facts := make(map[string]string)
	learn := func(_, text string) {
		for _, match := range factPattern.FindAllStringSubmatch(text, -1) {
			facts[match[1]] = match[2]
		}
	}
	learn("", r.Instructions)
	eachText("", gjson.GetBytes(r.Body, "input"), learn)
	return facts
}

// recall answers the message RECALL, or returns false if the user's last message is none.
func recall(req Request, question string) (answer Say, ok bool) {
	match := recallPattern.FindStringSubmatch(question)
	if match == nil {
		return "", false
	}
	facts := req.Facts()
	if match[1] == allFacts {
		return Say(strings.TrimSpace(list(facts, ""))), true
	}
	if value, known := facts[match[1]]; known {
		return Say(value), true
	}
	return Say("unknown " + match[1]), true
}

// summary returns a summary with all facts, for the model to read.
func summary(req Request) Say {
	facts := req.Facts()
	text := SummaryText + list(facts, "FACT ")
	if least, err := strconv.Atoi(facts[summaryBytes]); err == nil && least > len(text) {
		const filler = "\nThen more was done, which is not worth many words."
		text += strings.Repeat(filler, (min(least, maxSummary)-len(text)+len(filler)-1)/len(filler))
	}
	if strings.Contains(req.UserText(), "<summary>") {
		text = "<summary>\n" + text + "\n</summary>" // otherwise Claude Code asks again
	}
	return Say(text)
}

// list returns a line for each fact.
func list(facts map[string]string, before string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		b.WriteString("\n" + before + name + " = " + facts[name])
	}
	return b.String()
}
