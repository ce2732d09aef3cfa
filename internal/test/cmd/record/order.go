package main

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// Codex sends from several tasks, so the order of some messages differs between runs. A recording
// always has the same one of the possible orders, with related messages next to each other.

// inOrder returns the messages of a recording in that order.
func inOrder(entries []recorder.Entry) []recorder.Entry {
	return sortResults(afterResponse(callsTogether(answerAfterStart(entries))))
}

// answerAfterStart moves the answer to turn/start behind turn/started, which clients handle worst.
func answerAfterStart(entries []recorder.Entry) []recorder.Entry {
	var answer *recorder.Entry
	var turnStart string
	var rest []recorder.Entry
	for i, e := range entries {
		m := gjson.ParseBytes(e.Message)
		method, id := m.Get("method").Str, m.Get("id").Raw
		if e.Dir == recorder.ToServer && method == "turn/start" {
			turnStart = id
		}
		if e.Dir == recorder.FromServer && method == "" && id == turnStart && answer == nil && id != "" {
			answer = &entries[i]
			continue
		}
		rest = append(rest, e)
	}
	if answer == nil {
		return entries
	}
	started := slices.IndexFunc(rest, func(e recorder.Entry) bool { return gjson.GetBytes(e.Message, "method").Str == "turn/started" })
	if started < 0 {
		return entries
	}
	return slices.Insert(rest, started+1, *answer)
}

// callsTogether moves the item and the request of a tool call to after the model's raw item.
func callsTogether(entries []recorder.Entry) []recorder.Entry {
	follow := make(map[string][]recorder.Entry) // by the ids of calls with a raw item
	for _, e := range entries {
		if id := rawCall(e); id != "" {
			follow[id] = []recorder.Entry{}
		}
	}
	var rest []recorder.Entry
	for _, e := range entries {
		id := startOfCall(e)
		if follow[id] == nil {
			rest = append(rest, e)
			continue
		}
		follow[id] = append(follow[id], e)
	}
	var ordered []recorder.Entry
	for _, e := range rest {
		ordered = append(ordered, e)
		if id := rawCall(e); id != "" {
			ordered = append(ordered, follow[id]...)
		}
	}
	return ordered
}

// startOfCall returns the call id of the start of a tool call's item, or of its request.
func startOfCall(e recorder.Entry) string {
	m := gjson.ParseBytes(e.Message)
	switch m.Get("method").Str {
	case "item/started":
		if m.Get("params.item.type").Str == "dynamicToolCall" {
			return m.Get("params.item.id").Str
		}
	case methodToolCall:
		return m.Get("params.callId").Str
	}
	return ""
}

// rawCall returns the call id if an entry is the model's raw item of a call.
func rawCall(e recorder.Entry) string {
	m := gjson.ParseBytes(e.Message)
	if m.Get("method").Str != "rawResponseItem/completed" || m.Get("params.item.type").Str != "function_call" || m.Get("params.turnId").Str == replay {
		return ""
	}
	return m.Get("params.item.call_id").Str
}

// The parts of a call's result in their order.
const (
	noResult = iota
	clientAnswer
	itemCompleted
	rawOutput
)

// resultKind returns which part of a call's result an entry is.
func resultKind(e recorder.Entry) int {
	m := gjson.ParseBytes(e.Message)
	switch {
	case e.Dir == recorder.ToServer && !m.Get("method").Exists():
		return clientAnswer
	case m.Get("method").Str == "item/completed" && m.Get("params.item.type").Str == "dynamicToolCall":
		return itemCompleted
	case m.Get("params.item.type").Str == "function_call_output" && m.Get("params.turnId").Str != replay:
		return rawOutput
	}
	return noResult
}

// afterResponse moves results of calls behind the end of their model response, where Codex waits.
func afterResponse(entries []recorder.Entry) []recorder.Entry {
	var ordered, held []recorder.Entry
	responding := true
	for _, e := range entries {
		if responding && resultKind(e) != noResult {
			held = append(held, e)
			continue
		}
		method := gjson.GetBytes(e.Message, "method").Str
		if method == "error" || method == "turn/completed" { // there is no end of the response
			ordered, held = append(ordered, held...), nil
		}
		ordered = append(ordered, e)
		switch method {
		case "rawResponse/completed":
			ordered, held, responding = append(ordered, held...), nil, false
		case "thread/tokenUsage/updated": // the end of the results
			responding = true
		}
	}
	return append(ordered, held...)
}

func sortResults(entries []recorder.Entry) []recorder.Entry {
	for i := 0; i < len(entries); {
		end := i
		for end < len(entries) && resultKind(entries[end]) != noResult {
			end++
		}
		slices.SortStableFunc(entries[i:end], func(a, b recorder.Entry) int { return cmp.Compare(resultKind(a), resultKind(b)) })
		i = max(end, i+1)
	}
	return entries
}
