package aggregator

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// The kinds of items that matter here, in the Responses API and, in camel case, in
// the app-server's protocol v2.
const (
	itemFunctionCall    = "function_call"
	itemMessage         = "message"
	itemDynamicToolCall = "dynamicToolCall"
	itemAgentMessage    = "agentMessage"
)

// itemPhase is the state of an item according to the event that contains it.
type itemPhase uint8

const (
	itemBegun   itemPhase = iota // announced; more of it is to come
	itemSettled                  // complete, unless its own status says otherwise
)

// item reads an item that is not part of a Responses event.
func (in *ingestion) item(choice int, m members, phase itemPhase) {
	in.takeItem(choice, m, noPlace, phase)
}

// takeItem passes an item, with the place that its event gives it, to the reader of its kind.
// Items of other kinds have no call.
func (in *ingestion) takeItem(choice int, m members, u update, phase itemPhase) {
	u.callID, u.name = in.identifier(m.callID), in.identifier(m.name)
	switch in.tag(m.kind) {
	case itemFunctionCall:
		in.functionCall(choice, m, u, phase)
	case itemDynamicToolCall:
		u.name = in.identifier(m.tool)
		in.dynamicToolCall(choice, m, u, phase)
	case itemAgentMessage, itemMessage:
		if in.opts.message {
			in.chatMessage(choice, in.looseID(m.id), m)
		}
	}
}

// functionCall reads a Responses function_call: the model's own text of the
// arguments. Arguments that an announced item has already are a fragment, which
// only the announcement itself brings, not its repetition.
func (in *ingestion) functionCall(choice int, m members, u update, phase itemPhase) {
	in.calls = true
	u.itemID = in.looseID(m.id)
	status := in.tag(m.status)
	if phase == itemSettled && status != "in_progress" || status == "completed" {
		u.text, u.from = in.argumentText(m.arguments, sourceItem)
		u.done = true
		in.takeUpdate(choice, &u)
		return
	}
	u.text, u.from = in.argumentText(m.arguments, sourceStream)
	if s := in.agg.choices[choice]; s != nil {
		if c := s.find(&u); c != nil && (c.announced() || c.begun) {
			u.text, u.from = jsontext.String{}, sourceNone
		}
	}
	u.begun = true
	in.takeUpdate(choice, &u)
}
