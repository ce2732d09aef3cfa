package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"strings"
)

// whoami tells a person what answers, and what to do about it.
const whoami = "I am the built-in demo model of caddy-codex, not a real one: I only follow scripts. " +
	"To talk to a real model, run `codex login` on the server and restart it without the demo."

// demo returns the answer to a question without directives.
func demo(req Request, question string) Output {
	if results := req.ToolResults(); len(results) > 0 {
		return quote(results)
	}
	question = strings.TrimSpace(question)
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
	said += ". A real model would answer that now.\n\n" + whoami
	if tools := req.ClientTools(); len(tools) > 0 {
		said += fmt.Sprintf("\n\nThe request offers tools (%d). Write \"tool:%s {}\", and I call the first.", len(tools), tools[0].Name)
	}
	return Say(said + "\n\nSay \"help\" to see what I can do.")
}
