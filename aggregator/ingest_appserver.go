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

// notification reads a message of the app-server, with its params. Whether it is
// of this turn is for the caller to know: Codex replays injected items as
// rawResponseItem/completed of another turn.
func (in *ingestion) notification(choice int, method, params string) {
	switch method {
	case methodRawItem, methodItemCompleted:
		in.item(choice, in.readEnvelope(params).item, itemSettled)
	case methodItemStarted:
		in.item(choice, in.readEnvelope(params).item, itemBegun)
	case methodToolCall:
		e := in.readEnvelope(params)
		in.toolCall(choice, &e.event)
	}
}

// dynamicToolCall reads the item that Codex makes from a call of a client's tool. Its id
// is the call_id of the raw item. Its arguments were parsed, so they are not the text of
// the model: with item/started it announces the call, and once it is complete its
// arguments are used if no text has come.
func (in *ingestion) dynamicToolCall(choice int, it item, phase itemPhase) {
	in.calls = true
	u := it.update
	u.callID = it.id
	u.done = phase == itemSettled && it.status != "inProgress"
	u.text, u.from = renderedArguments(it.arguments)
	in.takeUpdate(choice, &u)
}

// toolCall reads the params of item/tool/call, the request to run a tool. The call
// is complete then, or Codex would not ask.
func (in *ingestion) toolCall(choice int, e *responsesEvent) {
	in.calls = true
	u := newUpdate()
	u.callID, u.name, u.done = e.callID, e.tool, true
	u.text, u.from = renderedArguments(e.arguments)
	in.takeUpdate(choice, &u)
}

// toolCall reports whether the members are those of item/tool/call's params.
func (e *responsesEvent) toolCall() bool { return e.callID != "" && e.tool != "" }

// renderedArguments returns a JSON value as arguments that Codex has parsed.
func renderedArguments(value string) (jsontext.String, source) {
	if value == "" || value == "null" {
		return jsontext.String{}, sourceNone
	}
	return jsontext.Plain(value), sourceParsed
}
