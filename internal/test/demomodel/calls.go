package demomodel

import (
	"encoding/json"
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

// forcedCalls are the calls that the request forces.
func forcedCalls(q question) []scriptedmodel.Output {
	if name, anyTool := q.forcing(); name != "" || anyTool {
		return askedCalls(q)
	}
	return nil
}

// askedCalls are the calls that the request forces, or that the question asks for.
func askedCalls(q question) []scriptedmodel.Output {
	tools := q.req.ClientTools()
	forced, anyTool := q.forcing()
	var wanted []scriptedmodel.Tool
	for _, t := range tools {
		if t.Name == forced || forced == "" && q.names(t.Name, len(tools)) {
			wanted = append(wanted, t)
		}
	}
	if len(wanted) == 0 && len(tools) > 0 && (anyTool || len(q.text) <= 2*maxEnds && asksForTool.MatchString(q.short)) {
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
	if len(parts) > 1 && wordStart(q.short, lower) ||
		regexp.MustCompile("\\b(?:use|call|try|run|invoke|with)(?: the| my)? (?:tool )?`?"+regexp.QuoteMeta(lower)+`\b`).MatchString(q.short) {
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
