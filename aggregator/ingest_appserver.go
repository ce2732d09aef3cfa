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
		in.item(choice, readMembers(params.item), itemSettled)
	case methodItemStarted:
		in.item(choice, readMembers(params.item), itemBegun)
	case methodToolCall:
		in.toolCall(choice, params)
	}
}

// dynamicToolCall reads the item that Codex makes from a call of a client's tool. Its id
// is the call_id of the raw item. Its arguments were parsed, so they are not the text of
// the model: with item/started it announces the call, and once it is complete its
// arguments are used if no text has come.
func (in *ingestion) dynamicToolCall(choice int, m members, u update, phase itemPhase) {
	in.calls = true
	u.callID = in.looseID(m.id)
	u.done = phase == itemSettled && in.tag(m.status) != "inProgress"
	u.text, u.from = renderedArguments(m.arguments)
	in.takeUpdate(choice, &u)
}

// toolCall reads the params of item/tool/call, the request to run a tool, which Codex sends
// for complete calls only.
func (in *ingestion) toolCall(choice int, m members) {
	in.calls = true
	u := noPlace
	u.callID, u.name, u.done = in.identifier(m.callID), in.identifier(m.tool), true
	u.text, u.from = renderedArguments(m.arguments)
	in.takeUpdate(choice, &u)
}

// renderedArguments returns a JSON value as arguments that Codex has parsed.
func renderedArguments(value string) (jsontext.String, source) {
	if value == "" || value == "null" {
		return jsontext.String{}, sourceNone
	}
	return jsontext.Plain(value), sourceParsed
}
