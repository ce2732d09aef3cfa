package demomodel

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// The sentences with which the gateway forces a tool, or tools.
var (
	forcedOne = regexp.MustCompile(`In this reply you must call the tool (\S+)\. `)
	forcedAny = "In this reply you must call at least one of your tools."
)

// maxCalls bounds the calls of an answer.
const maxCalls = 8

// forcing returns the name of the tool that has to be called, or whether any has to be.
func (q question) forcing() (name string, anyTool bool) {
	var choice struct {
		Name     string
		Function struct{ Name string }
	}
	if json.Unmarshal(q.req.ToolChoice, &choice) == nil && choice.Name+choice.Function.Name != "" {
		return choice.Name + choice.Function.Name, false
	}
	told := append(q.req.Said("developer"), q.req.Instructions)
	for _, text := range told {
		if match := forcedOne.FindStringSubmatch(text); match != nil {
			return match[1], false
		}
	}
	required := string(q.req.ToolChoice) == `"required"`
	return "", required || slices.ContainsFunc(told, func(text string) bool { return strings.Contains(text, forcedAny) })
}

func (q question) forced() bool {
	name, anyTool := q.forcing()
	return name != "" || anyTool
}

// wantedCalls returns the calls that the request forces, or that the question asks for.
func wantedCalls(q question) []scriptedmodel.Output {
	tools := q.req.ClientTools()
	if len(tools) == 0 {
		return nil
	}
	forced, anyTool := q.forcing()
	var wanted []scriptedmodel.Tool
	for _, t := range tools {
		if t.Name == forced || forced == "" && q.names(t.Name, len(tools)) {
			wanted = append(wanted, t)
		}
	}
	if len(wanted) == 0 && (anyTool || len(q.text) <= 2*maxEnds && asksForTool.MatchString(q.short)) {
		wanted = tools[:1]
	}
	var calls []scriptedmodel.Output
	for _, t := range wanted {
		for _, about := range q.subjects(t) {
			calls = append(calls, scriptedmodel.Call{Name: t.Name, Arguments: arguments(t.Parameters, q, about)})
		}
	}
	most := maxCalls
	if q.req.ParallelToolCalls != nil && !*q.req.ParallelToolCalls {
		most = 1
	}
	return calls[:min(len(calls), most)]
}

var asksForTool = regexp.MustCompile(`\b(use|call|try|run)\b[^.?!;]{0,20}\btools?\b`)

// commonWords are parts of tools' names that questions have for other reasons.
var commonWords = strings.Fields(`
	search write create update delete execute command string number current default output notebook files
	tools memory agent read file list edit task todo code text data user name
	find make send post page item open exec show tell call test note from
	with`)

// fewTools is the number of tools up to which a part of a name, such as weather of get_weather, is enough.
// Agents offer more, and must be told to use one.
const fewTools = 8

var camel = regexp.MustCompile(`([a-z\d])([A-Z])`)

// names reports whether a question asks for a tool by its name, or by a part of it if there are few tools.
func (q question) names(tool string, tools int) bool {
	if len(q.text) > 2*maxEnds {
		return false // a program's, whose rules speak of tools
	}
	lower := strings.ToLower(tool)
	words := strings.ToLower(camel.ReplaceAllString(tool, "$1 $2"))
	parts := strings.FieldsFunc(words, func(r rune) bool { return r == '_' || r == '-' || r == ' ' || r == '.' })
	if len(parts) > 1 && wordStart(q.short, lower) || strings.Contains(q.short, "`"+lower+"`") {
		return true
	}
	if regexp.MustCompile(`\b(?:use|call|try|run|invoke|with)(?: the| my)? (?:tool )?` + regexp.QuoteMeta(lower) + `\b`).MatchString(q.short) {
		return true
	}
	return tools <= fewTools && slices.ContainsFunc(parts, func(part string) bool {
		return len(part) > 3 && !slices.Contains(commonWords, part) && wordStart(q.short, part)
	})
}

// subjects returns what a tool with one text to fill in is called for: each name in the question, as in
// "the weather in Oslo and Paris". Otherwise, it is called once, for the question.
func (q question) subjects(t scriptedmodel.Tool) []string {
	var schema struct {
		Properties map[string]struct{ Type any }
		Required   []string
	}
	_ = json.Unmarshal(t.Parameters, &schema) // what cannot be read has no members
	names := slices.DeleteFunc(namesIn(q.text), func(name string) bool {
		return slices.ContainsFunc(q.req.ClientTools(), func(t scriptedmodel.Tool) bool { return t.Name == name })
	})
	if len(schema.Required) == 1 && schema.Properties[schema.Required[0]].Type == "string" && len(names) > 1 {
		return names
	}
	return []string{strings.Join(names[:min(len(names), 1)], "")}
}

// maxQuoted bounds what is quoted of a result, in runes.
const maxQuoted = 600

// aboutResults says what the tools have answered.
func aboutResults(q question, results []scriptedmodel.Item) string {
	calls := make(map[string]scriptedmodel.Item)
	for _, it := range q.req.Input {
		if it.Type == "function_call" {
			calls[it.CallID] = it
		}
	}
	if len(results) == 1 {
		return aboutResult(calls[results[0].CallID], results[0].Output.String()) + footnote
	}
	answer := fmt.Sprintf("I have asked %d times:\n", len(results))
	for _, r := range results {
		answer += "\n- " + strings.ReplaceAll(aboutResult(calls[r.CallID], r.Output.String()), "\n", "\n  ")
	}
	return answer + footnote
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
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
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
