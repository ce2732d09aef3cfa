package aggregator

import "github.com/caddy-codex/caddy-codex/internal/wirejson"

// responsesEvent reads one event of a Responses stream.
func (in *ingestion) responsesEvent(choice int, kind string, m members) {
	u := Input{sequence: in.number(m.sequence) + 1}
	if output := in.number(m.outputIndex); output >= 0 {
		u.place = place{kind: placeOutput, index: int(output)}
	}
	switch kind {
	case "response.output_item.added":
		in.takeItem(choice, readMembers(m.item), u, false)
	case "response.output_item.done":
		in.takeItem(choice, readMembers(m.item), u, true)
	case "response.function_call_arguments.delta":
		in.argumentsEvent(choice, m, u, m.delta, SourceFragment)
	case "response.function_call_arguments.done":
		in.argumentsEvent(choice, m, u, m.arguments, SourceText)
	default: // response.completed and similar events have all items
		in.outputItems(choice, readMembers(m.response).output)
	}
}

// argumentsEvent reads response.function_call_arguments.delta and .done. If the item was not
// announced, the call is not shown until its name comes.
func (in *ingestion) argumentsEvent(choice int, m members, u Input, arguments string, from Source) {
	in.calls = true
	u.Name, u.ID, u.Item = in.identifier(m.name), in.identifier(m.callID), in.identifier(m.itemID)
	u.Done = from != SourceFragment
	u.Text, u.Source = in.argumentText(arguments, from)
	if u.Source == SourceParsed || !u.Done && u.Source == SourceNone {
		in.malformed("arguments are not a string")
		return
	}
	in.take(choice, &u)
}

// outputItems reads an array of Responses items.
func (in *ingestion) outputItems(choice int, items string) {
	for w := wirejson.Walk(items); w.Next(); {
		in.takeItem(choice, readMembers(w.Value), Input{summary: true, round: in.agg.stats.Events}, true)
	}
}

// takeItem reads an item of the Responses API or, if its type is in camel case, of the app-server.
// u has the place that the event gives the item. If complete is false, the item is only announced:
// more of it follows. Items of other types have no call.
func (in *ingestion) takeItem(choice int, m members, u Input, complete bool) {
	u.ID, u.Name = in.identifier(m.callID), in.identifier(m.name)
	switch in.tag(m.kind) {
	case "function_call":
		in.functionCall(choice, m, u, complete)
	case "dynamicToolCall":
		// Codex makes this item from a call of a client's tool. The id of the item is the call_id of
		// the raw item.
		u.ID, u.ThreadItem = "", in.looseID(m.id)
		in.parsedCall(choice, m, u, complete && in.tag(m.status) != "inProgress")
	case "agentMessage", "message":
		if in.opts.message {
			in.chatMessage(choice, in.looseID(m.id), m)
		}
	}
}

// functionCall reads a Responses function_call, which has the model's own text of the arguments. If
// the item is only announced and already has arguments, they are a first fragment. A repeated
// announcement does not add them again.
func (in *ingestion) functionCall(choice int, m members, u Input, complete bool) {
	in.calls = true
	u.Item = in.looseID(m.id)
	status := in.tag(m.status)
	if complete && status != "in_progress" || status == "completed" {
		u.Text, u.Source = in.argumentText(m.arguments, SourceItem)
		if u.Done = true; u.raw {
			u.asRaw()
		} else if u.Source == SourceItem {
			u.whole = wholeItem
		}
		in.take(choice, &u)
		return
	}
	u.Text, u.Source = in.argumentText(m.arguments, SourceFragment)
	if c := in.agg.choices[choice]; c != nil {
		if known := c.find(&u); known != nil && (known.shown() || known.begun) {
			u.Text, u.Source = "", SourceNone
		}
	}
	u.begun = true
	in.take(choice, &u)
}

// notification reads a message of the app-server's protocol v2, as codex 0.150 to 0.169 send it.
// The caller must leave out messages of other turns, since Codex replays injected items as
// rawResponseItem/completed.
func (in *ingestion) notification(choice int, method string, params members) {
	switch method {
	case "rawResponseItem/completed", "item/completed":
		in.takeItem(choice, readMembers(params.item), Input{raw: true}, true)
	case "item/started":
		in.takeItem(choice, readMembers(params.item), Input{raw: true}, false)
	case "item/tool/call":
		in.toolCall(choice, params)
	}
}

// toolCall reads the params of item/tool/call, the request to run a tool, which Codex sends
// for complete calls only.
func (in *ingestion) toolCall(choice int, m members) {
	in.parsedCall(choice, m, Input{ID: in.identifier(m.callID)}, true)
}

// parsedCall reads a tool call whose arguments Codex has parsed, so that they may differ from the
// model's text. If done is false, the call is only announced.
func (in *ingestion) parsedCall(choice int, m members, u Input, done bool) {
	in.calls = true
	u.Name, u.Done = in.identifier(m.tool), done
	if m.arguments != "" && m.arguments != "null" {
		u.Text, u.Source = m.arguments, SourceParsed
	}
	in.take(choice, &u)
}
