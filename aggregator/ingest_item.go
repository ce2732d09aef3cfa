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

// item is what an item of any kind may hold.
type item struct {
	kind, id, status string
	arguments        string // raw
	chat             chatBody
	update           update
}

// readItem reads an item of any kind.
func (in *ingestion) readItem(object string) item {
	it := item{update: newUpdate()}
	for w := jsontext.Walk(object); w.Next(); {
		switch w.Key {
		case "type":
			it.kind = in.tag(w.Value)
		case "status":
			it.status = in.tag(w.Value)
		case "id":
			it.id = in.looseID(w.Value)
		case "call_id":
			it.update.callID = in.identifier(w.Value)
		case "name", "tool":
			it.update.name = in.identifier(w.Value)
		case "arguments":
			it.arguments = w.Value
		default:
			it.chat.take(w.Key, w.Value)
		}
	}
	return it
}

// item reads an item that is not part of a Responses event.
func (in *ingestion) item(choice int, object string, phase itemPhase) {
	in.takeItem(choice, in.readItem(object), phase)
}

// takeItem passes an item to the reader of its kind. Items of other kinds have no call.
func (in *ingestion) takeItem(choice int, it item, phase itemPhase) {
	switch it.kind {
	case itemFunctionCall:
		in.functionCall(choice, it, phase)
	case itemDynamicToolCall:
		in.dynamicToolCall(choice, it, phase)
	case itemAgentMessage, itemMessage:
		if in.opts.message {
			in.chatMessage(choice, it.id, it.chat)
		}
	}
}

// functionCall reads a Responses function_call: the model's own text of the
// arguments. Arguments that an announced item has already are a fragment, which
// only the announcement itself brings, not its repetition.
func (in *ingestion) functionCall(choice int, it item, phase itemPhase) {
	in.calls = true
	u := it.update
	u.itemID = it.id
	if phase == itemSettled && it.status != "in_progress" || it.status == "completed" {
		u.text, u.from = in.argumentText(it.arguments, sourceItem)
		u.done = true
		in.takeUpdate(choice, &u)
		return
	}
	u.text, u.from = in.argumentText(it.arguments, sourceStream)
	if s := in.agg.choices[choice]; s != nil {
		if c := s.find(&u); c != nil && (c.announced() || c.begun) {
			u.text, u.from = jsontext.String{}, sourceNone
		}
	}
	u.begun = true
	in.takeUpdate(choice, &u)
}
