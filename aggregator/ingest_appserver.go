package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// The messages of the app-server's protocol v2 that carry calls, as codex 0.150 to
// 0.169 send them.
const (
	methodRawItem       = "rawResponseItem/completed"
	methodItemStarted   = "item/started"
	methodItemCompleted = "item/completed"
	methodToolCall      = "item/tool/call"
)

// notification reads a message of the app-server, with its params. The caller must leave out
// those of other turns: Codex replays injected items as rawResponseItem/completed.
func (in *ingestion) notification(choice int, method string, params members) {
	switch method {
	case methodRawItem, methodItemCompleted:
		in.takeItem(choice, readMembers(params.item), noPlace, true)
	case methodItemStarted:
		in.takeItem(choice, readMembers(params.item), noPlace, false)
	case methodToolCall:
		in.toolCall(choice, params)
	}
}

// dynamicToolCall reads the item that Codex makes from a call of a client's tool. Its id
// is the call_id of the raw item. Its arguments were parsed, so they are not the text of
// the model: with item/started it announces the call, and once it is complete its
// arguments are used if no text has come.
func (in *ingestion) dynamicToolCall(choice int, m members, u update, settled bool) {
	u.callID = in.looseID(m.id)
	in.parsedCall(choice, m, u, settled && in.tag(m.status) != "inProgress")
}

// toolCall reads the params of item/tool/call, the request to run a tool, which Codex sends
// for complete calls only.
func (in *ingestion) toolCall(choice int, m members) {
	u := noPlace
	u.callID = in.identifier(m.callID)
	in.parsedCall(choice, m, u, true)
}

// parsedCall takes a call of a tool whose arguments Codex has parsed.
func (in *ingestion) parsedCall(choice int, m members, u update, done bool) {
	in.calls = true
	u.name, u.done = in.identifier(m.tool), done
	if m.arguments != "" && m.arguments != "null" {
		u.text, u.from = jsontext.Plain(m.arguments), sourceParsed
	}
	in.takeUpdate(choice, &u)
}
