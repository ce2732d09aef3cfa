package chat

import (
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// checkCalls checks that each call of an assistant has one result, in the tool messages
// right after it. Codex would silently invent a result for a call without one, and drop
// a result without a call.
func checkCalls(messages []prompt.Message) *field.Error {
	var made int                  // the message whose calls are open
	open := map[string]struct{}{} // their ids
	for i, m := range messages {
		if m.Role == prompt.RoleTool {
			id := m.CallID.Text()
			if _, ok := open[id]; !ok {
				return field.Invalid("there is no call %.64q in the assistant message before that waits for a result", id).
					In("tool_call_id").At(i)
			}
			delete(open, id)
			continue
		}
		if len(open) > 0 {
			return unanswered(messages[made], open).At(made)
		}
		made = i
		for k, call := range m.Calls {
			id := call.ID.Text()
			if _, twice := open[id]; twice {
				return field.Invalid("the id %.64q is used twice", id).In("id").At(k).In("tool_calls").At(i)
			}
			open[id] = struct{}{}
		}
	}
	if len(open) > 0 {
		return unanswered(messages[made], open).At(made)
	}
	return nil
}

// namedIDs is how many calls without results an error lists.
const namedIDs = 5

// unanswered returns the error of a message with calls that have no results. open has
// their ids. The path is that of the first.
func unanswered(m prompt.Message, open map[string]struct{}) *field.Error {
	if callsFunction(&m) {
		return field.Invalid("must be followed by a message of the role function, with the result").In("function_call")
	}
	first, ids := -1, make([]string, 0, namedIDs)
	for k, call := range m.Calls {
		id := call.ID.Text()
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
	return field.Invalid("must be followed by a tool message for each call; there is none with the tool_call_id %s",
		strings.Join(ids, ", ")).In("id").At(first).In("tool_calls")
}
