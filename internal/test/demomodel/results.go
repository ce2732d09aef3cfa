package demomodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// maxQuoted bounds what is quoted of a result, in runes.
const maxQuoted = 600

// results says what the tools have answered, which is JSON if the request wants that.
func results(q question) []scriptedmodel.Output {
	if len(q.req.ToolResults()) == 0 {
		return nil
	}
	if q.wantsJSON() {
		return text(jsonAnswer)(q)
	}
	return []scriptedmodel.Output{scriptedmodel.Say(aboutResults(q) + footnote)}
}

func aboutResults(q question) string {
	results := q.req.ToolResults()
	calls := make(map[string]scriptedmodel.Item)
	for _, it := range q.req.Input {
		if it.Type == "function_call" {
			calls[it.CallID] = it
		}
	}
	if len(results) == 1 {
		return aboutResult(calls[results[0].CallID], results[0].Output.String())
	}
	answer := fmt.Sprintf("I have asked %d times:\n", len(results))
	for _, r := range results {
		answer += "\n- " + strings.ReplaceAll(aboutResult(calls[r.CallID], r.Output.String()), "\n", "\n  ")
	}
	return answer
}

var failed = regexp.MustCompile(`(?i)^\W*(error|failed|exception|traceback)|"error"\s*:`)

// aboutResult says what one tool has answered.
func aboutResult(call scriptedmodel.Item, result string) string {
	name := "The tool"
	if call.Name != "" {
		name = "`" + call.Name + "`"
	}
	if about := mainArgument(call.Arguments); about != "" {
		name += " for **" + plain(abridge(about, 60)) + "**"
	}
	result = strings.TrimSpace(result)
	var object map[string]any
	switch {
	case result == "":
		return name + " has run, and had nothing to say."
	case failed.MatchString(result):
		return name + " has failed: " + plain(abridge(strings.Join(strings.Fields(ends(result)), " "), 200)) + ". I would correct the arguments, and try again."
	case json.Unmarshal([]byte(result), &object) == nil && len(object) > 0:
		return name + " knows this:\n\n" + memberTable(object)
	case strings.Contains(result, "\n"):
		return fmt.Sprintf("%s answers with %d lines:\n\n```text\n%s\n```", name, strings.Count(result, "\n")+1, strings.ReplaceAll(abridge(result, maxQuoted), "```", "'''"))
	}
	return name + " says: " + plain(abridge(result, maxQuoted))
}

// mainArgument returns the only text among the arguments of a call.
func mainArgument(arguments string) (text string) {
	var members map[string]any
	_ = json.Unmarshal([]byte(arguments), &members) // none
	for _, value := range members {
		if s, ok := value.(string); ok {
			if text != "" {
				return ""
			}
			text = s
		}
	}
	return text
}

// memberTable shows an object's members.
func memberTable(object map[string]any) string {
	const shown = 12
	names := slices.Sorted(maps.Keys(object))
	table := "| | |\n| --- | --- |"
	for _, name := range names[:min(len(names), shown)] {
		value, isText := object[name].(string)
		if !isText {
			encoded, _ := json.Marshal(object[name]) // was decoded from JSON
			value = string(encoded)
		}
		table += fmt.Sprintf("\n| **%s** | %s |", plain(abridge(name, 60)), plain(abridge(strings.Join(strings.Fields(value), " "), 120)))
	}
	return table
}
