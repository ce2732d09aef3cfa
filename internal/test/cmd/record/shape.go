package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// reads are the members of messages that this repository reads, as paths in params by method.
var reads = map[string][]string{
	"item/agentMessage/delta":         {"threadId", "turnId", "itemId", "delta"},
	"item/reasoning/summaryTextDelta": {"threadId", "turnId", "itemId", "delta", "summaryIndex"},
	"item/started":                    {"threadId", "turnId", "item.type", "item.id"},
	"item/completed":                  {"threadId", "turnId", "item.type", "item.id", "item.text"},
	"rawResponseItem/completed":       {"threadId", "turnId", "item.type", "item.call_id", "item.name", "item.arguments"},
	"rawResponse/completed":           {"threadId", "turnId", "usage.totalTokens", "usage.inputTokens", "usage.cachedInputTokens", "usage.outputTokens", "usage.reasoningOutputTokens"},
	"thread/tokenUsage/updated":       {"threadId", "turnId", "tokenUsage.total.totalTokens"},
	"error":                           {"threadId", "turnId", "willRetry", "error.message", "error.codexErrorInfo"},
	"turn/started":                    {"threadId", "turn.id"},
	"turn/completed":                  {"threadId", "turn.id", "turn.status", "turn.error"},
	methodToolCall:                    {"threadId"},
}

// tells are the members whose values matter, not only their presence.
var tells = map[string]bool{"item.type": true, "willRetry": true, "turn.status": true, "error.codexErrorInfo": true, "summaryIndex": true}

// answers are the members of answers that are read, by method.
var answers = map[string][]string{
	"initialize":    {"userAgent", "codexHome"},
	"getAuthStatus": {"authMethod", "requiresOpenaiAuth"},
	"account/read":  {"account", "requiresOpenaiAuth"},
	"model/list":    {"data.0.id", "data.0.model", "data.0.isDefault", "data.0.hidden", "nextCursor"},
	"thread/start":  {"thread.id"},
	"turn/start":    {"turn.id"},
}

// shape returns what is compared of a recording: a line for each message, with the
// members that matter. Repeated lines count as one, since texts may be cut anywhere.
// Messages of tasks that race with each other are returned apart and sorted.
func shape(text []byte) (ordered, racing []string) {
	asked := make(map[string]string) // methods of the client by id
	entries, err := recorder.Parse(text)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for _, e := range entries {
		form, races := describe(e.Dir, gjson.ParseBytes(e.Message), asked)
		switch {
		case races:
			racing = append(racing, form)
		case len(ordered) == 0 || ordered[len(ordered)-1] != form:
			ordered = append(ordered, form)
		}
	}
	slices.Sort(racing)
	return ordered, racing
}

// describe returns a message as a line, and whether its place is random.
func describe(dir recorder.Dir, m gjson.Result, asked map[string]string) (form string, races bool) {
	method, params := m.Get("method").Str, m.Get("params")
	switch {
	case method == "" && dir == recorder.ToServer:
		return string(dir) + " answer " + names(m.Get("result")), true
	case method == "" && m.Get("error").Exists():
		return string(dir) + " refusal of " + asked[m.Get("id").Raw], false
	case method == "":
		method = asked[m.Get("id").Raw]
		// The answer to an interrupt may come before or after the last events.
		return string(dir) + " answer to " + method + members(m.Get("result"), answers[method]), method == "turn/interrupt"
	case dir == recorder.ToServer:
		asked[m.Get("id").Raw] = method
		return string(dir) + " " + method + " " + names(params), false
	}
	return string(dir) + " " + method + members(params, reads[method]), comesAnyTime(method, params)
}

// replay is the id of the turn in which injected items come back.
const replay = "auto-compact-0"

// comesAnyTime reports whether a message comes from a task that runs beside that of the turn.
func comesAnyTime(method string, params gjson.Result) bool {
	switch params.Get("item.type").Str {
	case "dynamicToolCall", "contextCompaction", "function_call_output":
		return true
	}
	return method == methodToolCall || method == "warning" || strings.HasPrefix(method, "account/") || params.Get("turnId").Str == replay
}

// members lists the members that exist, some with their values.
func members(v gjson.Result, paths []string) string {
	var there []string
	for _, path := range paths {
		member := v.Get(path)
		switch {
		case !member.Exists():
		case tells[path]:
			there = append(there, path+"="+member.Raw)
		default:
			there = append(there, path)
		}
	}
	return " {" + strings.Join(there, " ") + "}"
}

func names(v gjson.Result) string {
	var all []string
	v.ForEach(func(key, _ gjson.Result) bool {
		all = append(all, key.Str)
		return true
	})
	slices.Sort(all)
	return "{" + strings.Join(all, " ") + "}"
}

// maxDifferences bounds the differences that are reported of a list.
const maxDifferences = 5

// compare returns the differences between the shapes of two recordings.
func compare(committed, fresh []byte) []string {
	oldOrdered, oldRacing := shape(committed)
	newOrdered, newRacing := shape(fresh)
	return append(
		differences("step", oldOrdered, newOrdered),
		differences("of those that come at any time, number", oldRacing, newRacing)...)
}

// differences returns the differences between two lists.
func differences(what string, old, fresh []string) []string {
	var told []string
	for i := range max(len(old), len(fresh)) {
		was, is := "nothing", "nothing"
		if i < len(old) {
			was = old[i]
		}
		if i < len(fresh) {
			is = fresh[i]
		}
		if was == is {
			continue
		}
		if len(told) == maxDifferences {
			return append(told, "and more")
		}
		told = append(told, fmt.Sprintf("%s %d was %s\n      now is %s", what, i+1, was, is))
	}
	return told
}
