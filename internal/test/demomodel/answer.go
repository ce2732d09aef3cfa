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

// Model is the model.
type Model struct {
	// SignIn answers who wants to log in. Nil: nobody can.
	SignIn func() string
}

// rules are tried in this order: the first that has an answer gives it.
var rules = []func(question) []scriptedmodel.Output{
	// What programs ask for.
	pictureCall,
	forcedCalls,
	results,
	askedCalls,
	text(jsonAnswer),
	text(titleAnswer),
	// What people ask for.
	text(help),
	text(question.login),
	noted(aboutPicture),
	noted(aboutNothing),
	noted(recollection),
	noted(sum),
	noted(clock),
	noted(topical),
	text(thanks.answer),
	text(unknown.answer),
}

// Answer answers a request whose last message has this text. It implements the option of
// [scriptedmodel.Options].
func (m Model) Answer(req scriptedmodel.Request, said string) scriptedmodel.Script {
	script := scriptedmodel.Script{Chunk: scriptedmodel.ChunkWords, Delay: wordDelay, FirstDelay: firstDelay}
	q := newQuestion(req, said)
	q.signIn = m.SignIn
	for _, rule := range rules {
		if script.Output = rule(q); script.Output != nil {
			break
		}
	}
	return script
}

// text makes a rule of a function that returns the answer, or nothing.
func text(answer func(question) string) func(question) []scriptedmodel.Output {
	return func(q question) []scriptedmodel.Output {
		if text := answer(q); text != "" {
			return []scriptedmodel.Output{scriptedmodel.Say(text)}
		}
		return nil
	}
}

var needsThought = regexp.MustCompile(`\b(why|how|explain|code|program|formula|plan|compare|essay|think|\d+ ?[-+*/×÷^] ?\d+)\b`)

// noted is text with the footnote, unless the answer says so itself. A summary of a reasoning comes before the answer to a question that
// needs some, if the request asks for summaries.
func noted(answer func(question) string) func(question) []scriptedmodel.Output {
	return func(q question) []scriptedmodel.Output {
		text := answer(q)
		if text == "" {
			return nil
		}
		if !strings.Contains(text, "demo model") {
			text += footnote
		}
		said := []scriptedmodel.Output{scriptedmodel.Say(text)}
		if q.req.Reasoning.Summary == "" || !needsThought.MatchString(q.short) {
			return said
		}
		thought := "**Reading the question**\nThis is about " + q.topic() + ". I look for what I have prepared about it, and choose what was not said before."
		return append([]scriptedmodel.Output{scriptedmodel.Reason(thought)}, said...)
	}
}

func help(q question) string {
	if strings.EqualFold(strings.Trim(q.text, " .!?"), "help") {
		return scriptedmodel.HelpText
	}
	return ""
}

// loginAsked is a wish to log in, and nothing else.
var loginAsked = regexp.MustCompile(`(?i)^(?:please |(?:can|could|how (?:can|do|to)|let me|i (?:want|would like) to|i'd like to) ?(?:i |you )?)?/?(?:log|sign)(?: me)?[ -]?in(?: now|,? please|,? with [\pL' ]{1,40})?[ .!?]*$`)

func (q question) login() string {
	if q.signIn != nil && loginAsked.MatchString(q.text) {
		return q.signIn()
	}
	return ""
}
