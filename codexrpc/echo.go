package codexrpc

import "github.com/tidwall/gjson"

// largeLine is the size from which a line is checked by isEcho, in bytes.
const largeLine = 8 << 10

// isEcho reports whether a large line repeats what this client has sent: injected
// history and the user's message come back as raw items and as items. They are as
// long as the request and of no use, so that isEcho drops them before they are
// copied or checked.
func (c *Conn) isEcho(line []byte) bool {
	if len(line) < largeLine {
		return false
	}
	switch gjson.GetBytes(line, "method").Str {
	case methodItemStarted, methodItemCompleted:
		return gjson.GetBytes(line, "params.item.type").Str == "userMessage"
	case methodRawItemCompleted:
		if gjson.GetBytes(line, "params.item.type").Str != itemFunctionCall {
			return true
		}
		// A call in the history differs from one of the model's only by its turn.
		t := c.thread(gjson.GetBytes(line, "params.threadId").Str)
		return t == nil || !t.owns(gjson.GetBytes(line, "params.turnId").Str)
	}
	return false
}
