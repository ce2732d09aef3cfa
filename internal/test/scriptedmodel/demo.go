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
	question = strings.TrimSpace(reminders.ReplaceAllString(question, ""))
	said := fmt.Sprintf("You said: “%s”", abridge(question, 200))
	switch {
	case req.Text.Format.Type != "" && req.Text.Format.Type != "text":
		answer, _ := json.Marshal(map[string]string{"answer": said})
		return Say(answer)
	case strings.EqualFold(question, "help"):
		return Say(helpText)
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

// demoArguments returns arguments for a schema with objects of plain values, in which the
// required members have values of their types: a text is the name of a place or thing in the
// question, or else the question.
func demoArguments(schema json.RawMessage, question string) string {
	var object struct {
		Properties map[string]struct {
			Type string
			Enum []any
		}
		Required []string
	}
	_ = json.Unmarshal(schema, &object) // what cannot be read has no members
	arguments := make(map[string]any)
	for _, name := range object.Required {
		property := object.Properties[name]
		switch {
		case len(property.Enum) > 0:
			arguments[name] = property.Enum[0]
		case property.Type == "number", property.Type == "integer":
			arguments[name] = 1
		case property.Type == "boolean":
			arguments[name] = true
		case property.Type == "array":
			arguments[name] = []any{}
		case property.Type == "object":
			arguments[name] = map[string]any{}
		default:
			arguments[name] = cmp.Or(nameIn(question), question)
		}
	}
	text, _ := json.Marshal(arguments)
	return string(text)
}

var capitalized = regexp.MustCompile(`[\pL\d,] (\p{Lu}\p{Ll}+)`)

// nameIn returns the first word of a question that is written like a name within a sentence.
func nameIn(question string) string {
	if match := capitalized.FindStringSubmatch(question); match != nil {
		return match[1]
	}
	return ""
}
