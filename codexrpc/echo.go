package codexrpc

import "github.com/tidwall/gjson"

// bulky is the size above which a line is looked at before it is copied.
const bulky = 8 << 10

// isEcho reports whether a large line only repeats what this client has sent:
// injected history and the user's own message come back as raw items and as
// items. They are as long as the request and nobody reads them, so that they
// are told apart before anything of them is copied or checked.
func (c *Conn) isEcho(line []byte) bool {
	if len(line) < bulky {
		return false
	}
	switch gjson.GetBytes(line, "method").Str {
	case methodItemStarted, methodItemCompleted:
		return gjson.GetBytes(line, "params.item.type").Str == "userMessage"
	case methodRawItemCompleted:
		if gjson.GetBytes(line, "params.item.type").Str != itemFunctionCall {
			return true
		}
		// A call in the history looks like one of the model's but for its turn.
		t := c.thread(gjson.GetBytes(line, "params.threadId").Str)
		return t == nil || !t.owns(gjson.GetBytes(line, "params.turnId").Str)
	}
	return false
}
