package scriptedmodel

import (
	"cmp"
	"fmt"
	"slices"
)

// itemWriter sends the events of one output item.
type itemWriter struct {
	*player
	index  int    // index of the item in the output
	status string // status of the finished item
	open   bool   // the item is not finished because the script breaks off
}

// id returns an id that is unique on this server.
func (it *itemWriter) id(prefix string) string {
	return fmt.Sprintf("%s_%d_%d", prefix, it.number, it.index)
}

// added sends the event that begins the item.
func (it *itemWriter) added(item any) error {
	return it.emit(event{Type: "response.output_item.added", OutputIndex: &it.index, Item: item})
}

// done sends the event that ends the item, and adds the item to the response.
func (it *itemWriter) done(item any) error {
	it.response.Output = append(it.response.Output, item)
	return it.emit(event{Type: "response.output_item.done", OutputIndex: &it.index, Item: item})
}

// sendDeltas sends text in pieces, each in a copy of e.
func (it *itemWriter) sendDeltas(e event, text string) error {
	for piece := range chunks(text, it.script.Chunk) {
		if err := it.pace(); err != nil {
			return err
		}
		e.Delta = &piece
		if err := it.emit(e); err != nil {
			return err
		}
	}
	return nil
}

// emitAll sends events until one fails.
func (it *itemWriter) emitAll(events ...event) error {
	for _, e := range events {
		if err := it.emit(e); err != nil {
			return err
		}
	}
	return nil
}

// message sends a message. Its annotations follow its text, each in an event.
func (it *itemWriter) message(text string, annotations []any) error {
	item := messageItem{ID: it.id("msg"), Type: "message", Status: "in_progress", Role: "assistant", Content: []textPart{}}
	if err := it.added(item); err != nil {
		return err
	}
	of := func(typ string) event {
		return event{Type: typ, ItemID: item.ID, OutputIndex: &it.index, ContentIndex: new(0)}
	}
	part := of("response.content_part.added")
	part.Part = newTextPart("")
	if err := it.emit(part); err != nil {
		return err
	}
	delta := of("response.output_text.delta")
	delta.Logprobs = &[]any{}
	if err := it.sendDeltas(delta, text); err != nil || it.open {
		return err
	}
	for i, annotation := range annotations {
		added := of("response.output_text.annotation.added")
		added.AnnotationIndex, added.Annotation = &i, annotation
		if err := it.emit(added); err != nil {
			return err
		}
	}
	done := of("response.output_text.done")
	done.Text, done.Logprobs = &text, &[]any{}
	part = of("response.content_part.done")
	whole := newTextPart(text)
	whole.Annotations = annotations
	part.Part = whole
	if err := it.emitAll(done, part); err != nil {
		return err
	}
	item.Status = it.status
	item.Content = []textPart{whole}
	return it.done(item)
}

func (it *itemWriter) search(query string) error {
	item := searchItem{ID: it.id("ws"), Type: "web_search_call", Status: "in_progress"}
	if err := it.added(item); err != nil || it.open {
		return err
	}
	for _, state := range []string{"in_progress", "searching", "completed"} {
		if err := it.emit(event{Type: "response.web_search_call." + state, ItemID: item.ID, OutputIndex: &it.index}); err != nil {
			return err
		}
	}
	item.Status, item.Action = it.status, &searchAction{"search", query}
	return it.done(item)
}

func (it *itemWriter) call(call Call) error {
	item := callItem{
		ID: it.id("fc"), Type: "function_call", Status: "in_progress",
		CallID: cmp.Or(call.ID, fmt.Sprintf("call_%d_%d", it.number, it.calls)), Name: call.Name,
	}
	if err := it.added(item); err != nil {
		return err
	}
	delta := event{Type: "response.function_call_arguments.delta", ItemID: item.ID, OutputIndex: &it.index}
	if err := it.sendDeltas(delta, call.Arguments); err != nil || it.open {
		return err
	}
	err := it.emit(event{
		Type: "response.function_call_arguments.done", ItemID: item.ID, OutputIndex: &it.index,
		Name: call.Name, Arguments: &call.Arguments,
	})
	if err != nil {
		return err
	}
	item.Status = it.status
	item.Arguments = call.Arguments
	return it.done(item)
}

func (it *itemWriter) reasoning(parts []string) error {
	item := reasoningItem{ID: it.id("rs"), Type: "reasoning", Status: "in_progress", Summary: []summaryPart{}}
	if err := it.added(item); err != nil {
		return err
	}
	for i, text := range parts {
		open := it.open && i == len(parts)-1
		if err := it.summaryPart(item.ID, i, text, open); err != nil || open {
			return err
		}
		item.Summary = append(item.Summary, summaryPart{Type: "summary_text", Text: text})
	}
	item.Status = it.status
	if slices.Contains(it.include, "reasoning.encrypted_content") {
		item.EncryptedContent = new("scripted " + item.ID)
	}
	return it.done(item)
}

func (it *itemWriter) summaryPart(itemID string, index int, text string, open bool) error {
	of := func(typ string) event {
		return event{Type: "response.reasoning_summary_" + typ, ItemID: itemID, OutputIndex: &it.index, SummaryIndex: &index}
	}
	added := of("part.added")
	added.Part = summaryPart{Type: "summary_text"}
	if err := it.emit(added); err != nil {
		return err
	}
	if err := it.sendDeltas(of("text.delta"), text); err != nil || open {
		return err
	}
	done := of("text.done")
	done.Text = &text
	partDone := of("part.done")
	partDone.Part = summaryPart{Type: "summary_text", Text: text}
	return it.emitAll(done, partDone)
}
