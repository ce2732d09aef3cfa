package aggregator

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// responsesEvent reads one event of a Responses stream.
func (in *ingestion) responsesEvent(choice int, kind string, m members) {
	u := noPlace
	u.output, u.sequence = int(in.number(m.outputIndex)), in.number(m.sequence)
	switch kind {
	case "response.output_item.added":
		in.takeItem(choice, readMembers(m.item), u, false)
	case "response.output_item.done":
		in.takeItem(choice, readMembers(m.item), u, true)
	case "response.function_call_arguments.delta":
		in.argumentsEvent(choice, m, u, m.delta, sourceStream)
	case "response.function_call_arguments.done":
		in.argumentsEvent(choice, m, u, m.arguments, sourceMessage)
	default: // response.completed and its like hold all items
		in.outputItems(choice, readMembers(m.response).output)
	}
}

// argumentsEvent reads response.function_call_arguments.delta and .done. A
// fragment for an item that nobody announced waits for its name.
func (in *ingestion) argumentsEvent(choice int, m members, u update, arguments string, from source) {
	in.calls = true
	u.name, u.callID, u.itemID = in.identifier(m.name), in.identifier(m.callID), in.identifier(m.itemID)
	u.done = from != sourceStream
	u.text, u.from = in.argumentText(arguments, from)
	if u.from == sourceParsed || !u.done && u.from == sourceNone {
		in.agg.stats.Malformed++
		return
	}
	in.takeUpdate(choice, &u)
}

// outputItems reads an array of Responses items.
func (in *ingestion) outputItems(choice int, items string) {
	for w := jsontext.Walk(items); w.Next(); {
		in.takeItem(choice, readMembers(w.Value), noPlace, true)
	}
}

// takeItem reads an item of the Responses API, or, with a kind in camel case, of the
// app-server, at the place that its event gives it. An item that is not settled is announced:
// more of it is to come. Items of other kinds have no call.
func (in *ingestion) takeItem(choice int, m members, u update, settled bool) {
	u.callID, u.name = in.identifier(m.callID), in.identifier(m.name)
	switch in.tag(m.kind) {
	case "function_call":
		in.functionCall(choice, m, u, settled)
	case "dynamicToolCall":
		// Codex makes it from a call of a client's tool. Its id is the call_id of the raw item.
		u.callID = in.looseID(m.id)
		in.parsedCall(choice, m, u, settled && in.tag(m.status) != "inProgress")
	case "agentMessage", "message":
		if in.opts.message {
			in.chatMessage(choice, in.looseID(m.id), m)
		}
	}
}

// functionCall reads a Responses function_call: the model's own text of the
// arguments. Arguments that an announced item has already are a fragment, which
// only the announcement itself brings, not its repetition.
func (in *ingestion) functionCall(choice int, m members, u update, settled bool) {
	in.calls = true
	u.itemID = in.looseID(m.id)
	status := in.tag(m.status)
	if settled && status != "in_progress" || status == "completed" {
		u.text, u.from = in.argumentText(m.arguments, sourceItem)
		u.done = true
		in.takeUpdate(choice, &u)
		return
	}
	u.text, u.from = in.argumentText(m.arguments, sourceStream)
	if s := in.agg.choices[choice]; s != nil {
		if c := s.find(&u); c != nil && (c.ordinal >= 0 || c.begun) {
			u.text, u.from = jsontext.String{}, sourceNone
		}
	}
	u.begun = true
	in.takeUpdate(choice, &u)
}

// notification reads a message of the app-server's protocol v2, as codex 0.150 to 0.169 send
// them, with its params. The caller must leave out those of other turns: Codex replays injected
// items as rawResponseItem/completed.
func (in *ingestion) notification(choice int, method string, params members) {
	switch method {
	case "rawResponseItem/completed", "item/completed":
		in.takeItem(choice, readMembers(params.item), noPlace, true)
	case "item/started":
		in.takeItem(choice, readMembers(params.item), noPlace, false)
	case "item/tool/call":
		in.toolCall(choice, params)
	}
}

// toolCall reads the params of item/tool/call, the request to run a tool, which Codex sends
// for complete calls only.
func (in *ingestion) toolCall(choice int, m members) {
	u := noPlace
	u.callID = in.identifier(m.callID)
	in.parsedCall(choice, m, u, true)
}

// parsedCall takes a call of a tool whose arguments Codex has parsed, so that they are not the
// text of the model. Until the call is done they only announce it.
func (in *ingestion) parsedCall(choice int, m members, u update, done bool) {
	in.calls = true
	u.name, u.done = in.identifier(m.tool), done
	if m.arguments != "" && m.arguments != "null" {
		u.text, u.from = jsontext.Plain(m.arguments), sourceParsed
	}
	in.takeUpdate(choice, &u)
}

// takeUpdate finds the call that an update is about, or makes it, and applies
// the update to it.
func (in *ingestion) takeUpdate(choice int, u *update) {
	s := in.choice(choice)
	if s == nil || in.echo(s, u.callID) {
		return
	}
	c := s.find(u)
	if c == nil {
		if u.callID == "" && u.itemID == "" && u.output < 0 && u.name == "" {
			in.agg.stats.Malformed++
			return
		}
		if c = in.create(s, false); c == nil {
			return
		}
	}
	in.bindCallID(s, c, u.callID, u.name)
	if u.itemID != "" {
		if c.itemID == "" {
			c.itemID = strings.Clone(u.itemID)
		}
		in.bindID(s, c, keyItemID, u.itemID, u.name)
	}
	if u.output >= 0 {
		// An output index means the newest item there: it begins again with each response.
		in.bind(s, c, key{kind: keyOutput, place: u.output})
	}
	in.apply(s, c, u)
}

// find returns the call of an update: by its ids, else by the place of its item, else, for
// an update with neither, the call that was created last. If several calls have the id,
// it is the one at the place of the item.
func (s *choiceState) find(u *update) *call {
	var placed *call
	if u.output >= 0 {
		placed = s.keys[key{kind: keyOutput, place: u.output}]
	}
	if placed != nil && !placed.fits(u.name) {
		placed = nil
	}
	c := s.byID(keyCallID, u.callID, u.name)
	kind, id := keyCallID, u.callID
	if c == nil {
		c = s.byID(keyItemID, u.itemID, u.name)
		kind, id = keyItemID, u.itemID
	}
	if c != nil && placed != nil && c != placed && s.keys[namedKey(kind, id, placed.name)] == placed {
		return placed
	}
	if c != nil {
		return c
	}
	if placed != nil && (u.itemID == "" || placed.itemID == "") && (u.callID == "" || placed.backendID == "") {
		return placed
	}
	if u.callID == "" && u.itemID == "" && u.output < 0 && s.last != nil && !s.last.done && s.last.fits(u.name) {
		return s.last
	}
	return nil
}
