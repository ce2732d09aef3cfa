package scriptedmodel

import (
	"regexp"
	"strings"
)

// echo answers a question without directives: it quotes the results of tools, or the question.
func echo(req Request, question string) Script {
	if results := req.ToolResults(); len(results) > 0 {
		return Script{Output: []Output{quote(results)}}
	}
	question = strings.TrimSpace(WithoutReminders(question))
	return Script{Output: []Output{Say("You said: “" + abridge(question, 200) + "”")}}
}

// reminders match what Claude Code and Copilot CLI put before the words of their users.
var reminders = regexp.MustCompile(`(?s)<(system-reminder|current_datetime)>.*?</(system-reminder|current_datetime)>`)

// WithoutReminders returns a text without what some clients put before the words of their users.
func WithoutReminders(text string) string { return reminders.ReplaceAllString(text, "") }

// leadingReminders match them before directives.
var leadingReminders = regexp.MustCompile(`(?s)^(\s*<(system-reminder|current_datetime)>.*?</(system-reminder|current_datetime)>)+\s*`)
