// Package demomodel is the model of the demo. It answers a few kinds of questions with Markdown
// that it brings with it, remembers what was said, does small sums, calls tools and fills in JSON
// schemas. What it says is in the folder texts: each file has the answers to one kind of question.
package demomodel

import (
	"regexp"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const (
	// wordDelay is the pause after a word, as of a real model, and firstDelay the one before the first.
	wordDelay  = 25 * time.Millisecond
	firstDelay = 250 * time.Millisecond

	// footnote says what has answered.
	footnote = "\n\n*This was the built-in demo model, not a real one.*"
	// loginHint completes a sentence that says how to ask a real model.
	loginHint = "write *log in*"
)

// loginAsked is a wish to log in, and nothing else.
var loginAsked = regexp.MustCompile(`(?i)^(?:please |(?:can|could|how (?:can|do|to)|let me|i (?:want|would like) to|i'd like to) ?(?:i |you )?)?/?(?:log|sign)(?: me)?[ -]?in(?: now|,? please|,? with [\pL' ]{1,40})?[ .!?]*$`)

// Model is the model.
type Model struct {
	// SignIn answers who wants to log in.
	SignIn func() string
}

// Answer answers a request whose last message has this text. It implements the option of
// [scriptedmodel.Options].
func (m Model) Answer(req scriptedmodel.Request, text string) scriptedmodel.Script {
	return scriptedmodel.Script{
		Output: m.output(newQuestion(req, text)), Chunk: scriptedmodel.ChunkWords, Delay: wordDelay, FirstDelay: firstDelay,
	}
}

// output is the first of these that the question asks for.
func (m Model) output(q question) []scriptedmodel.Output {
	if call, ok := pictureCall(q); ok {
		return call
	}
	calls := wantedCalls(q)
	if results := q.req.ToolResults(); len(results) > 0 && !q.forced() {
		if q.wantsJSON() {
			return say(jsonAnswer(q))
		}
		return say(aboutResults(q, results))
	}
	switch {
	case len(calls) > 0:
		return calls
	case q.wantsJSON():
		return say(jsonAnswer(q))
	}
	if answer, ok := housekeeping(q); ok {
		return say(answer)
	}
	switch {
	case strings.EqualFold(strings.Trim(q.text, " .!?"), "help"):
		return say(scriptedmodel.HelpText)
	case loginAsked.MatchString(q.text):
		return say(m.SignIn())
	}
	for _, rule := range []func(question) (string, bool){aboutPicture, aboutNothing, recollection, sum, clock, translation, digest} {
		if answer, ok := rule(q); ok {
			return q.withThought(say(answer + footnote))
		}
	}
	return q.withThought(say(topical(q)))
}

func say(text string) []scriptedmodel.Output { return []scriptedmodel.Output{scriptedmodel.Say(text)} }

// withThought puts a summary of a reasoning before the answer to a question that needs some, if the
// request asks for summaries.
func (q question) withThought(answer []scriptedmodel.Output) []scriptedmodel.Output {
	if q.req.Reasoning.Summary == "" || !needsThought.MatchString(q.short) {
		return answer
	}
	thought := "**Reading the question**\nThis is about " + q.topic() + ". I look for what I have prepared about it, and choose what was not said before."
	return append([]scriptedmodel.Output{scriptedmodel.Reason(thought)}, answer...)
}
