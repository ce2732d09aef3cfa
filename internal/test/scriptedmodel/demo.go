package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// whoami tells a person whom they are talking to, and what to do about it.
const whoami = "I am the built-in demo model of caddy-codex, not a real one: I only follow scripts. " +
	"To talk to a real model, run `codex login` on the server and restart it without the demo."

// demo answers a question that holds no directives.
func demo(req Request, question string) []Output {
	results := req.ToolResults()
	question = strings.TrimSpace(question)
	switch {
	case len(results) > 0:
		return []Output{quote(results) + "\n\nThat is all the demo model can make of it."}
	case strings.HasPrefix(question, "Tool '") && strings.Contains(question, "' result:"):
		// How Obsidian Copilot hands over the results of textual blocks.
		return []Output{Say("The tool said: " + abridge(question, 2000))}
	case req.Text.Format.Type == "json_schema":
		return []Output{Say(fill(req.Text.Format.Schema, question))}
	case req.Text.Format.Type == "json_object":
		answer, _ := json.Marshal(map[string]string{"answer": "You said: " + abridge(question, 200)})
		return []Output{Say(answer)}
	case isHelp(question):
		return []Output{Say(helpText)}
	}
	if out, ok := demoCall(req, question); ok {
		return out
	}
	if isGreeting(question) {
		return []Output{Say("Hello! " + whoami + " Ask me for \"help\" to see what I can do.")}
	}
	return []Output{Say(echo(req, question))}
}

// demoCall calls the tool that fits the question, if one does.
func demoCall(req Request, question string) ([]Output, bool) {
	tools := req.ClientTools()
	if len(tools) == 0 {
		instructions := req.InstructionText()
		if !speaksOfBlocks(instructions) {
			return nil, false
		}
		text, ok := demoBlock(instructions, question)
		return []Output{Say(text)}, ok
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	i := bestTool(question, names)
	if i < 0 {
		return nil, false
	}
	reason := fmt.Sprintf("**Choosing a tool**\nThe question fits %s.", names[i])
	return []Output{Reason(reason), Call{Name: names[i], Arguments: string(fill(tools[i].Parameters, question))}}, true
}

// isHelp and isGreeting look at the words alone.
func isHelp(question string) bool {
	return slices.Equal(wordsOf(question), []string{"help"})
}

func isGreeting(question string) bool {
	const maxWords = 6 // more is a question that begins politely
	words := wordsOf(question)
	if len(words) == 0 || len(words) > maxWords {
		return false
	}
	return slices.Contains([]string{"hi", "hello", "hey", "hallo", "moin", "servus", "greetings"}, words[0]) ||
		len(words) > 1 && words[0] == "good" && slices.Contains([]string{"morning", "day", "evening", "afternoon"}, words[1])
}

// echo answers by what can be said of any question.
func echo(req Request, question string) string {
	if question == "" {
		return "There was no text to answer. " + whoami
	}
	var b strings.Builder
	fmt.Fprintf(&b, "You said: “%s”", abridge(question, 200))
	if i := req.lastUser(); i >= 0 {
		images := 0
		for _, part := range req.Input[i].Content {
			if part.Type == "input_image" {
				images++
			}
		}
		if images > 0 {
			fmt.Fprintf(&b, " and attached images (%d)", images)
		}
	}
	fmt.Fprintf(&b, ". A real model would answer that now.\n\n%s", whoami)
	if n := len(req.ClientTools()); n > 0 {
		fmt.Fprintf(&b, "\n\nThe request offers tools (%d): %s. Mention one, and I call it.", n, toolNames(req))
	}
	b.WriteString("\n\nSay \"help\" to see what I can do.")
	return b.String()
}

func toolNames(req Request) string {
	const shown = 10
	var names []string
	for _, t := range req.ClientTools() {
		if len(names) == shown {
			names = append(names, "…")
			break
		}
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}
