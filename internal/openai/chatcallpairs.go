package openai

import (
	"fmt"
	"strings"
)

// checkCalls checks that each call of an assistant is answered by one tool
// message, in the messages that follow at once. Codex would invent a result for
// a call without one and drop a result without a call, both without a word.
func checkCalls(messages []message) *fault {
	var made int                  // the message whose calls are open
	open := map[string]struct{}{} // their ids
	for i, m := range messages {
		if m.role == roleTool {
			id := m.callID.Text()
			if _, ok := open[id]; !ok {
				return wrongValue("there is no call %.64q in the assistant message before that waits for a result", id).
					in("tool_call_id").at(i)
			}
			delete(open, id)
			continue
		}
		if len(open) > 0 {
			return unanswered(messages[made], open).at(made)
		}
		made = i
		for k, call := range m.calls {
			id := call.id.Text()
			if _, twice := open[id]; twice {
				return wrongValue("the id %.64q is used twice", id).in("id").at(k).in("tool_calls").at(i)
			}
			open[id] = struct{}{}
		}
	}
	if len(open) > 0 {
		return unanswered(messages[made], open).at(made)
	}
	return nil
}

// namedIDs is how many of the calls without results an error names.
const namedIDs = 5

// unanswered is the fault of a message whose calls with the ids in open have no
// results. It points at the first of them.
func unanswered(m message, open map[string]struct{}) *fault {
	if callsFunction(&m) {
		return wrongValue("must be followed by a message of the role function, with the result").in("function_call")
	}
	first, ids := -1, make([]string, 0, namedIDs)
	for k, call := range m.calls {
		id := call.id.Text()
		if _, ok := open[id]; !ok {
			continue
		}
		if first < 0 {
			first = k
		}
		if len(ids) == namedIDs {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, fmt.Sprintf("%.64s", id))
	}
	return wrongValue("must be followed by a tool message for each call; there is none with the tool_call_id %s",
		strings.Join(ids, ", ")).in("id").at(first).in("tool_calls")
}
