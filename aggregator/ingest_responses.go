package aggregator

import "github.com/caddy-codex/caddy-codex/internal/wirejson"

func (in *ingestion) readResponsesEvent(choice int, kind string, m members) {
	input := Input{sequence: in.readNumber(m.sequence) + 1}
	if output := in.readNumber(m.outputIndex); output >= 0 {
		input.place = place{kind: placeOutput, index: int(output)}
	}
	switch kind {
	case "response.output_item.added":
		in.readItem(choice, readMembers(m.item), input, false)
	case "response.output_item.done":
		in.readItem(choice, readMembers(m.item), input, true)
	case "response.function_call_arguments.delta":
		in.readArgumentsEvent(choice, m, input, m.delta, SourceFragment)
	case "response.function_call_arguments.done":
		in.readArgumentsEvent(choice, m, input, m.arguments, SourceText)
	default: // response.completed and similar events have all items
		in.readOutputItems(choice, readMembers(m.response).output)
	}
}

// readArgumentsEvent reads response.function_call_arguments.delta and .done, and also the params of
// item/dynamicToolCall/argumentsDelta if input is raw. If the item was not announced, the call is not
// shown until its name comes.
func (in *ingestion) readArgumentsEvent(choice int, m members, input Input, arguments wirejson.Value, source Source) {
	in.foundCall = true
	input.Name, input.ID, input.Item = in.readIdentifier(m.name), in.readIdentifier(m.callID), in.readIdentifier(m.itemID)
	if input.raw {
		input.Item, input.ThreadItem = "", input.Item // itemId is the app-server's id
	}
	input.Done = source != SourceFragment
	input.Text, input.Source = in.readArguments(arguments, source)
	if input.Source == SourceParsed || !input.Done && input.Source == SourceNone {
		in.countMalformed("arguments are not a string")
		return
	}
	in.applyInput(choice, &input)
}

func (in *ingestion) readOutputItems(choice int, items wirejson.Value) {
	for v := range items.Values() {
		in.readItem(choice, readMembers(v), Input{list: in.agg.stats.Events}, true)
	}
}

// readItem reads an item of the Responses API or, with names in camel case, of the app-server. input
// already has what the event says about the item. If complete is false, the event only announces the item.
// Messages are only read by IngestMessage and SynthesizeCalls; other types of items are ignored.
func (in *ingestion) readItem(choice int, m members, input Input, complete bool) {
	input.ID, input.Name = in.readIdentifier(m.callID), in.readIdentifier(m.name)
	switch in.readTag(m.kind) {
	case "function_call":
		in.readFunctionCall(choice, m, input, complete)
	case "dynamicToolCall":
		// Codex makes this item from a call of a client's tool. Its id is the raw item's call_id.
		input.ID, input.ThreadItem = "", in.readID(m.id)
		in.readParsedCall(choice, m, input, complete && in.readTag(m.status) != "inProgress")
	case "agentMessage", "message":
		if in.opts.message {
			in.readChatMessage(choice, in.readID(m.id), m)
		}
	}
}

// readFunctionCall reads a function_call of the Responses API, with the arguments as the model wrote them.
// Arguments in an announcement are the first fragment; a repeated announcement does not add them again.
func (in *ingestion) readFunctionCall(choice int, m members, input Input, complete bool) {
	in.foundCall = true
	input.Item = in.readID(m.id)
	status := in.readTag(m.status)
	if complete && status != "in_progress" || status == "completed" {
		input.Text, input.Source = in.readArguments(m.arguments, SourceItem)
		input.Done = true
		in.applyInput(choice, &input)
		return
	}
	input.Text, input.Source = in.readArguments(m.arguments, SourceFragment)
	if c := in.agg.choices[choice]; c != nil {
		if known := c.find(&input); known != nil && (known.isShown() || known.announced) {
			input.Text, input.Source = "", SourceNone
		}
	}
	input.announces = true
	in.applyInput(choice, &input)
}

// readNotification reads a message of the app-server's protocol v2, as codex 0.169 to 0.171 send
// it, and also fragments of arguments, which some builds send. The caller of Ingest must leave out
// messages of other turns, since Codex replays injected items as rawResponseItem/completed.
func (in *ingestion) readNotification(choice int, method string, params wirejson.Value) {
	switch method {
	case "rawResponseItem/completed", "item/completed", "item/started":
		var item wirejson.Value
		params.Pick(wirejson.Into("item", &item))
		in.readItem(choice, readMembers(item), Input{raw: true}, method != "item/started")
	case "item/dynamicToolCall/argumentsDelta":
		m := readMembers(params)
		in.readArgumentsEvent(choice, m, Input{raw: true}, m.delta, SourceFragment)
	case "item/tool/call": // the app-server's request to run a tool
		m := readMembers(params)
		in.readParsedCall(choice, m, Input{ID: in.readIdentifier(m.callID)}, true)
	}
}

// readParsedCall reads a tool call whose arguments Codex has parsed, so that they may differ from
// the model's text. If done is false, the call is only announced.
func (in *ingestion) readParsedCall(choice int, m members, input Input, done bool) {
	in.foundCall = true
	input.Name, input.Done = in.readIdentifier(m.tool), done
	if m.arguments.Given() {
		input.Text, input.Source = wirejson.Text(m.arguments), SourceParsed
	}
	in.applyInput(choice, &input)
}
