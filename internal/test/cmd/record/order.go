package main

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"
)

// Codex sends from several tasks at once, so that some messages come in another
// order in every run. A recording has one of the possible orders, always the
// same: what belongs together stands together.

// inOrder puts the messages of a recording into that order.
func inOrder(entries []entry) []entry {
	return sortResults(afterResponse(callsTogether(answerAfterStart(entries))))
}

// answerAfterStart puts the answer to turn/start right behind turn/started: of
// the possible orders the one that surprises clients.
func answerAfterStart(entries []entry) []entry {
	var answer *entry
	var turnStart string
	var rest []entry
	for i, e := range entries {
		m := gjson.ParseBytes(e.Message)
		method, id := m.Get("method").Str, m.Get("id").Raw
		if e.Dir == toServer && method == "turn/start" {
			turnStart = id
		}
		if e.Dir == fromServer && method == "" && id == turnStart && answer == nil && id != "" {
			answer = &entries[i]
			continue
		}
		rest = append(rest, e)
	}
	if answer == nil {
		return entries
	}
	started := slices.IndexFunc(rest, func(e entry) bool { return gjson.GetBytes(e.Message, "method").Str == "turn/started" })
	if started < 0 {
		return entries
	}
	return slices.Insert(rest, started+1, *answer)
}

// callsTogether puts what Codex says of a tool call, its item and its request,
// right behind the model's raw item.
func callsTogether(entries []entry) []entry {
	follow := make(map[string][]entry) // by the ids of the calls that have a raw item
	for _, e := range entries {
		if id := rawCall(e); id != "" {
			follow[id] = []entry{}
		}
	}
	var rest []entry
	for _, e := range entries {
		id := startOfCall(e)
		if follow[id] == nil {
			rest = append(rest, e)
			continue
		}
		follow[id] = append(follow[id], e)
	}
	var ordered []entry
	for _, e := range rest {
		ordered = append(ordered, e)
		if id := rawCall(e); id != "" {
			ordered = append(ordered, follow[id]...)
		}
	}
	return ordered
}

// startOfCall returns the call id if an entry is the start of a tool call's
// item, or the request to make it.
func startOfCall(e entry) string {
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

// rawCall returns the call id if an entry is the model's own item of a call.
func rawCall(e entry) string {
	m := gjson.ParseBytes(e.Message)
	if m.Get("method").Str != "rawResponseItem/completed" || m.Get("params.item.type").Str != "function_call" || m.Get("params.turnId").Str == replay {
		return ""
	}
	return m.Get("params.item.call_id").Str
}

// The results of calls, in the order in which they stand together.
const (
	noResult = iota
	clientAnswer
	itemCompleted
	rawOutput
)

// resultKind tells which part of a call's result an entry is.
func resultKind(e entry) int {
	m := gjson.ParseBytes(e.Message)
	switch {
	case e.Dir == toServer && !m.Get("method").Exists():
		return clientAnswer
	case m.Get("method").Str == "item/completed" && m.Get("params.item.type").Str == "dynamicToolCall":
		return itemCompleted
	case m.Get("params.item.type").Str == "function_call_output" && m.Get("params.turnId").Str != replay:
		return rawOutput
	}
	return noResult
}

// afterResponse moves the results of calls behind the end of the model response
// that made them: only there Codex waits for them.
func afterResponse(entries []entry) []entry {
	var ordered, held []entry
	responding := true
	for _, e := range entries {
		if responding && resultKind(e) != noResult {
			held = append(held, e)
			continue
		}
		method := gjson.GetBytes(e.Message, "method").Str
		if method == "error" || method == "turn/completed" { // the response has no end of its own
			ordered, held = append(ordered, held...), nil
		}
		ordered = append(ordered, e)
		switch method {
		case "rawResponse/completed":
			ordered, held, responding = append(ordered, held...), nil, false
		case "thread/tokenUsage/updated": // ends the results; the next response may begin
			responding = true
		}
	}
	return append(ordered, held...)
}

// sortResults sorts results that stand together by their kinds.
func sortResults(entries []entry) []entry {
	for i := 0; i < len(entries); {
		end := i
		for end < len(entries) && resultKind(entries[end]) != noResult {
			end++
		}
		slices.SortStableFunc(entries[i:end], func(a, b entry) int { return cmp.Compare(resultKind(a), resultKind(b)) })
		i = max(end, i+1)
	}
	return entries
}
