package codexrpc

import (
	"encoding/json"
	"time"
)

// refusals answer the requests that ask a person for something: nobody is
// there, so each is declined. An unanswered request would stall its turn for
// ever.
var refusals = map[string]any{
	"applyPatchApproval":                    map[string]any{"decision": "abort"},
	"execCommandApproval":                   map[string]any{"decision": "abort"},
	"item/commandExecution/requestApproval": map[string]any{"decision": "decline"},
	"item/fileChange/requestApproval":       map[string]any{"decision": "decline"},
	"item/permissions/requestApproval":      map[string]any{"permissions": map[string]any{}, "scope": "turn"},
	"item/tool/requestUserInput":            map[string]any{"answers": map[string]any{}},
	"mcpServer/elicitation/request":         map[string]any{"action": "decline", "content": nil, "_meta": nil},
}

// toolCallFailed answers a tool call whose result will not come in this turn:
// the client brings it with its next request.
var toolCallFailed = map[string]any{"contentItems": []any{}, "success": false}

const methodToolCall = "item/tool/call"

// serve answers one request of the app-server's. It never blocks.
func (c *Conn) serve(m message) {
	id := json.RawMessage(m.id)
	if m.method == methodToolCall {
		if t := c.thread(m.params.Get("threadId").Str); t == nil || !t.park(m.params.Get("callId").Str, id) {
			c.reply(outgoing{ID: id, Result: toolCallFailed})
		}
		return
	}
	if m.method == "currentTime/read" {
		c.reply(outgoing{ID: id, Result: map[string]any{"currentTimeAt": time.Now().Unix()}})
		return
	}
	if refusal, ok := refusals[m.method]; ok {
		c.reply(outgoing{ID: id, Result: refusal})
		return
	}
	c.stats.unknownRequests.Add(1)
	c.reply(outgoing{ID: id, Error: &outgoingError{codeMethodNotFound, "this client does not handle this method"}})
}
