package scriptedmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// whoami tells a person what answers, and what to do about it.
const whoami = "I am the built-in demo model of caddy-codex, not a real one: I only follow scripts. " +
	"To talk to a real model, run `codex login` on the server and restart it without the demo."

// demo returns the answer to a question without directives.
func demo(req Request, question string) Output {
	if results := req.ToolResults(); len(results) > 0 {
		return quote(results)
	}
	question = strings.TrimSpace(WithoutReminders(question))
	said := fmt.Sprintf("You said: “%s”", abridge(question, 200))
	switch {
	case req.Text.Format.Type != "" && req.Text.Format.Type != "text":
		answer := demoArguments(req.Text.Format.Schema, said)
		if answer == "{}" {
			answer = demoArguments(json.RawMessage(`{"required":["answer"]}`), said)
		}
		return Say(answer)
	case strings.EqualFold(question, "help"):
		return Say(HelpText)
	case question == "":
		return Say("There was no text to answer. " + whoami)
	}
	if tool, ok := wantedTool(req.ClientTools(), question); ok {
		return Call{Name: tool.Name, Arguments: demoArguments(tool.Parameters, question)}
	}
	said += ". A real model would answer that now.\n\n" + whoami
	if tools := req.ClientTools(); len(tools) > 0 {
		said += fmt.Sprintf("\n\nThe request offers tools (%d). Write \"use the tool\" or `%s`, and I call it.", len(tools), tools[0].Name)
	}
	return Say(said + "\n\nSay \"help\" to see what I can do.")
}

// reminders match what Claude Code and Copilot CLI put before the words of their users.
var reminders = regexp.MustCompile(`(?s)<(system-reminder|current_datetime)>.*?</(system-reminder|current_datetime)>`)

// WithoutReminders returns a text without what some clients put before the words of their users.
func WithoutReminders(text string) string { return reminders.ReplaceAllString(text, "") }

// leadingReminders match them before directives.
var leadingReminders = regexp.MustCompile(`(?s)^(\s*<(system-reminder|current_datetime)>.*?</(system-reminder|current_datetime)>)+\s*`)

// longQuestion is the length in bytes from which a question is a program's: agents put their
// rules, which speak of tools, before what their user says.
const longQuestion = 500

var asksForTool = regexp.MustCompile(`(?i)\b(use|call|try)\b[^.?!;]{0,20}\btools?\b`)

// wantedTool returns the tool that a question names, or the first one if it asks for a tool.
func wantedTool(tools []Tool, question string) (Tool, bool) {
	if len(tools) == 0 || len(question) > longQuestion {
		return Tool{}, false
	}
	words := strings.FieldsFunc(question, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	})
	named := slices.IndexFunc(tools, func(t Tool) bool { return slices.Contains(words, t.Name) })
	if named >= 0 {
		return tools[named], true
	}
	return tools[0], asksForTool.MatchString(question)
}

type demoSchema struct {
	Type       string
	Enum       []any
	Properties map[string]demoSchema
	Required   []string
}

// demoArguments returns an object for a schema, with the required members.
func demoArguments(schema json.RawMessage, question string) string {
	read := demoSchema{}
	_ = json.Unmarshal(schema, &read) // what cannot be read has no members
	read.Type = "object"
	text, _ := json.Marshal(read.value(question))
	return string(text)
}

// value returns a value of the type; for a text, what the question names, or else the question.
func (s demoSchema) value(question string) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "number", s.Type == "integer":
		return 1
	case s.Type == "boolean":
		return true
	case s.Type == "array":
		return []any{}
	case s.Type == "object":
		members := make(map[string]any)
		for _, name := range s.Required {
			members[name] = s.Properties[name].value(question)
		}
		return members
	}
	return cmp.Or(nameIn(question), question)
}

var capitalized = regexp.MustCompile(`[\pL\d,] (\p{Lu}\p{Ll}+)`)

// nameIn returns the first word of a question that is written like a name within a sentence.
func nameIn(question string) string {
	if match := capitalized.FindStringSubmatch(question); match != nil {
		return match[1]
	}
	return ""
}
