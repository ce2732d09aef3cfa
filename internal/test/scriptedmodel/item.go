package scriptedmodel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object.
type object map[string]any

// with returns o with more members.
func (o object) with(more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}

// itemWriter sends the events of one output item. After an error it sends nothing.
type itemWriter struct {
	*player
	index  int    // index of the item in the output
	status string // status of the finished item
	open   bool   // the item is not finished because the script breaks off
	err    error
}

// id returns an id that is unique on this server.
func (it *itemWriter) id(prefix string) string {
	return fmt.Sprintf("%s_%d_%d", prefix, it.number, it.index)
}

// emit sends an event of the item.
func (it *itemWriter) emit(typ string, members object) {
	if it.err == nil {
		it.err = it.player.emit("response."+typ, members.with(object{"output_index": it.index}))
	}
}

// added sends the event that begins the item.
func (it *itemWriter) added(item object) {
	it.emit("output_item.added", object{"item": item.with(object{"status": "in_progress"})})
}

// done sends the event that ends the item, and adds the item to the response.
func (it *itemWriter) done(item object) {
	item["status"] = it.status
	it.items = append(it.items, item)
	it.emit("output_item.done", object{"item": item})
}

// deltas sends text in pieces, each in an event with these members.
func (it *itemWriter) deltas(typ string, members object, text string) {
	for piece := range chunks(text, it.script.Chunk) {
		if it.err == nil {
			it.err = it.pace()
		}
		if it.err != nil {
			return
		}
		it.emit(typ, members.with(object{"delta": piece}))
	}
}

func textPart(text string, annotations []any) object {
	return object{"type": "output_text", "text": text, "annotations": annotations, "logprobs": []any{}}
}

// citation is an annotation, with its members in OpenAI's order. Its indexes count characters.
type citation struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
	Start int    `json:"start_index"`
	End   int    `json:"end_index"`
}

// message sends a message. Its annotations follow its text, each in an event.
func (it *itemWriter) message(text string, annotations []any) {
	item := object{"id": it.id("msg"), "type": "message", "role": "assistant", "content": []any{}}
	of := object{"item_id": item["id"], "content_index": 0}
	it.added(item)
	it.emit("content_part.added", of.with(object{"part": textPart("", []any{})}))
	it.deltas("output_text.delta", of.with(object{"logprobs": []any{}}), text)
	if it.open {
		return
	}
	for i, annotation := range annotations {
		it.emit("output_text.annotation.added", of.with(object{"annotation_index": i, "annotation": annotation}))
	}
	whole := textPart(text, annotations)
	it.emit("output_text.done", of.with(object{"text": text, "logprobs": []any{}}))
	it.emit("content_part.done", of.with(object{"part": whole}))
	item["content"] = []any{whole}
	it.done(item)
}

func (it *itemWriter) search(query string) {
	item := object{"id": it.id("ws"), "type": "web_search_call"}
	it.added(item)
	if it.open {
		return
	}
	for _, state := range []string{"in_progress", "searching", "completed"} {
		it.emit("web_search_call."+state, object{"item_id": item["id"]})
	}
	item["action"] = object{"type": "search", "query": query}
	it.done(item)
}

func (it *itemWriter) call(call Call) {
	callID := cmp.Or(call.ID, fmt.Sprintf("call_%d_%d", it.number, it.calls))
	item := object{"id": cmp.Or(call.Item, it.id("fc")), "type": "function_call", "call_id": callID, "name": call.Name, "arguments": ""}
	if call.Namespace != "" {
		item["namespace"] = call.Namespace
	}
	if call.Custom {
		item = object{"id": it.id("ctc"), "type": "custom_tool_call", "call_id": callID, "name": call.Name, "input": call.Arguments}
		it.added(item)
		it.done(item)
		return
	}
	of := object{"item_id": item["id"]}
	it.added(item)
	it.deltas("function_call_arguments.delta", of, call.Arguments)
	if it.open {
		return
	}
	it.emit("function_call_arguments.done", of.with(object{"name": call.Name, "arguments": call.Arguments}))
	item["arguments"] = call.Arguments
	it.done(item)
}

// thoughts makes encrypted reasoning as long as that of real models, which has many kilobytes.
var thoughts = strings.Repeat("gAAAAAB", 1500)

func (it *itemWriter) reasoning(parts []string) {
	item := object{"id": it.id("rs"), "type": "reasoning", "summary": []any{}, "encrypted_content": nil}
	it.added(item)
	var summary []any
	for i, text := range parts {
		of := object{"item_id": item["id"], "summary_index": i}
		part := object{"type": "summary_text", "text": text}
		it.emit("reasoning_summary_part.added", of.with(object{"part": part.with(object{"text": ""})}))
		it.deltas("reasoning_summary_text.delta", of, text)
		if it.open && i == len(parts)-1 {
			return
		}
		it.emit("reasoning_summary_text.done", of.with(object{"text": text}))
		it.emit("reasoning_summary_part.done", of.with(object{"part": part}))
		summary = append(summary, part)
	}
	item["summary"] = summary
	if slices.Contains(it.include, "reasoning.encrypted_content") {
		item["encrypted_content"] = fmt.Sprintf("scripted %s %s %s", item["id"], thoughts, item["id"])
	}
	it.done(item)
}
