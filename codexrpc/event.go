package codexrpc

import (
	"strings"
)

// EventKind is the kind of an [Event].
type EventKind uint8

const (
	// EventItemStarted is item/started: ItemType and ItemID are set, and for a call of a
	// client's tool Name.
	EventItemStarted EventKind = iota + 1
	// EventTextDelta is item/agentMessage/delta: ItemID and Text.
	EventTextDelta
	// EventReasoningDelta is item/reasoning/summaryTextDelta: ItemID, Index
	// (the summary's part) and Text.
	EventReasoningDelta
	// EventArgumentsDelta is item/dynamicToolCall/argumentsDelta, which Codex 0.169 does not
	// send: ItemID, CallID if there is one, and in Text a fragment of the arguments of a call.
	EventArgumentsDelta
	// EventItemCompleted is item/completed: ItemType and ItemID. An agentMessage also has Text
	// (its whole text) and Phase (if the model names one). An imageGeneration also has Status,
	// Text (the picture in base64, or empty), Name (the prompt of the picture), Transparent, and
	// Err if Codex says why there is no picture.
	EventItemCompleted
	// EventFunctionCall is rawResponseItem/completed of a function_call: ItemID,
	// CallID, Name and Text, the arguments as the model wrote them. Status is
	// StatusIncomplete if the model did not finish it. The name of one of Codex's own tools is
	// NAMESPACE.NAME; no client's tool has a dot in its name.
	EventFunctionCall
	// EventReasoningItem is rawResponseItem/completed of a reasoning: ItemID, Text,
	// its encrypted content, which is empty if the provider gave none, and Raw, the
	// item as JSON.
	EventReasoningItem
	// EventWebSearch is rawResponseItem/completed of a web_search_call: ItemID and Text,
	// its action as JSON, which is empty if there is none.
	EventWebSearch
	// EventAnnotations is rawResponseItem/completed of a message with annotations: ItemID,
	// Text, the annotations as a JSON array, and Index, the number of characters of the
	// message. It follows the EventItemCompleted of the message.
	EventAnnotations
	// EventCallOutput is rawResponseItem/completed of a function_call_output: Codex has
	// added the answer to a call to the thread, which it does after the end of the model
	// response. CallID is that of the call, and Status StatusFailed if Codex knows no such tool.
	// Text is why a picture could not be made; empty: the answer is another one.
	EventCallOutput
	// EventOffered is rawResponseItem/completed of additional_tools, by which Codex tells a
	// lite model its tools before it asks it: Text, their names, a line each.
	EventOffered
	// EventOwnCall is rawResponseItem/completed of a call of a kind that only tools of Codex's
	// own have: Name.
	EventOwnCall
	// EventItemCut is rawResponseItem/completed of a message that the model did not
	// finish (status incomplete): ItemID.
	EventItemCut
	// EventResponseCompleted is rawResponse/completed, the end of one model
	// response: Usage is that response's, and may be nil. Text is what the provider asks
	// for it, a decimal number in a unit of money that is not named; empty: it does not say.
	EventResponseCompleted
	// EventTokenUsage is thread/tokenUsage/updated: Usage is the thread's total.
	EventTokenUsage
	// EventError is the notification error: Err, and WillRetry when Codex tries
	// again by itself.
	EventError
	// EventTurnCompleted is turn/completed, the last event of a turn: Status,
	// and Err when it failed.
	EventTurnCompleted
	// eventTurnStarted is turn/started. It has the turn's id, often before the
	// answer to turn/start has it. It is not passed on.
	eventTurnStarted
	// The notifications that become one of the above, or nothing.
	eventRawItem
	eventWarning
)

// The values of [Event].Status.
const (
	StatusCompleted   = "completed"
	StatusInterrupted = "interrupted"
	StatusFailed      = "failed"
	StatusIncomplete  = "incomplete" // of an item
)

// The values of [Event].ItemType that this client acts on.
const (
	ItemAgentMessage      = "agentMessage"
	ItemReasoning         = "reasoning"
	ItemWebSearch         = "webSearch"
	ItemContextCompaction = "contextCompaction"
	ItemToolCall          = "dynamicToolCall"
	ItemPicture           = "imageGeneration"
)

// PictureTool is the name of the tool of Codex's own that makes pictures.
const PictureTool = pictureNamespace + ".imagegen"

// pictureNamespace is the namespace of that tool.
const pictureNamespace = "image_gen"

// Event is one notification of a turn. Kind says which fields are set.
type Event struct {
	Kind        EventKind
	Index       int
	WillRetry   bool
	Transparent bool // of a picture: its background was to be transparent
	fellBack    bool // of an EventError: Codex gives up the WebSocket to the model provider
	ItemType    string
	ItemID      string
	CallID      string
	Name        string
	Text        string
	Raw         string
	Status      string
	Phase       string
	Usage       *Usage
	Err         *TurnError

	threadID string
	turnID   string
	size     int // of the message, in bytes, for the queue's bound
}

// own gives the event strings of its own, as [Thread.mayBelong] has done with the turn's id.
// Until then they share the memory of the line, which the next one replaces. Those that are
// constants or belong to the thread are not copied, and a long message is not kept for a short
// text.
func (e *Event) own(t *Thread) {
	e.threadID, e.ItemID = t.id, t.ownItem(e.ItemID)
	e.ItemType, e.Status = known(e.ItemType), known(e.Status)
	if e.Raw != "" {
		e.Raw = strings.Clone(e.Raw)
		e.Text = textAt(e.Raw, encryptedContent)
	} else {
		e.Text = strings.Clone(e.Text)
	}
	e.CallID, e.Name, e.Phase = strings.Clone(e.CallID), strings.Clone(e.Name), strings.Clone(e.Phase)
}

// ownItem returns the id of an item in the thread's memory. It is called by the reader.
func (t *Thread) ownItem(id string) string {
	if id != t.item {
		t.item = strings.Clone(id)
	}
	return t.item
}

// itemUserMessage is the type of an item that repeats the input of a turn.
const itemUserMessage = "userMessage"

// known returns a constant that is equal to a text, or else a copy.
func known(text string) string {
	switch text {
	case ItemAgentMessage:
		return ItemAgentMessage
	case ItemReasoning:
		return ItemReasoning
	case StatusCompleted:
		return StatusCompleted
	}
	return strings.Clone(text)
}
