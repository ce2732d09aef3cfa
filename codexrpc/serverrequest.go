package codexrpc

import (
	"encoding/json"
	"time"
)

// declined are the answers to requests that need a person, who is not there. An
// unanswered request would stall its turn for ever.
var declined = map[string]any{
	"applyPatchApproval":                    map[string]any{"decision": "abort"},
	"execCommandApproval":                   map[string]any{"decision": "abort"},
	"item/commandExecution/requestApproval": map[string]any{"decision": "decline"},
	"item/fileChange/requestApproval":       map[string]any{"decision": "decline"},
	"item/permissions/requestApproval":      map[string]any{"permissions": map[string]any{}, "scope": "turn"},
	"item/tool/requestUserInput":            map[string]any{"answers": map[string]any{}},
	"mcpServer/elicitation/request":         map[string]any{"action": "decline", "content": nil, "_meta": nil},
}

// toolCallFailed answers a tool call that gets no result in this turn: the client
// sends the result with its next request.
var toolCallFailed = map[string]any{"contentItems": []any{}, "success": false}

const methodToolCall = "item/tool/call"

// handleRequest answers one request of the app-server's. It never blocks.
func (c *Conn) handleRequest(m message) {
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
	if answer, ok := declined[m.method]; ok {
		c.reply(outgoing{ID: id, Result: answer})
		return
	}
	c.count(&c.stats.UnknownRequests)
	c.reply(outgoing{ID: id, Error: &outgoingError{codeMethodNotFound, "this client does not handle this method"}})
}
