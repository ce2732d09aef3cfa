package codexrpc

import (
	"strings"
)

// EventKind is the kind of an [Event].
type EventKind uint8

const (
	// EventItemStarted is item/started: ItemType and ItemID. A call of a client's tool also has
	// Name.
	EventItemStarted EventKind = iota + 1
	// EventTextDelta is item/agentMessage/delta: ItemID and Text.
	EventTextDelta
	// EventReasoningDelta is item/reasoning/summaryTextDelta: ItemID, Index
	// (the summary's part) and Text.
	EventReasoningDelta
	// EventArgumentsDelta is item/dynamicToolCall/argumentsDelta, which Codex 0.169 does not
	// send: ItemID, CallID (if there is one) and Text (a fragment of the call's arguments).
	EventArgumentsDelta
	// EventItemCompleted is item/completed: ItemType and ItemID. An agentMessage also has Text
	// (its whole text) and Phase (if the model names one). An imageGeneration also has Status,
	// Text (the picture in base64, or empty), Name (the prompt of the picture), Transparent, and
	// Err if Codex says why there is no picture.
	EventItemCompleted
	// EventFunctionCall is rawResponseItem/completed of a function_call: ItemID,
	// CallID, Name and Text (the arguments as the model wrote them). Status is
	// StatusIncomplete if the model did not finish the call. Codex's tool for pictures has the
	// name [PictureTool]; no client's tool has a dot in its name.
	EventFunctionCall
	// EventReasoningItem is rawResponseItem/completed of a reasoning: ItemID, Text (the
	// encrypted content, or empty if the provider gave none) and Raw (the item as JSON).
	EventReasoningItem
	// EventWebSearch is rawResponseItem/completed of a web_search_call: ItemID and Text
	// (the action as JSON, or empty).
	EventWebSearch
	// EventAnnotations is rawResponseItem/completed of a message with annotations: ItemID,
	// Text (the annotations as a JSON array) and Index (the number of characters of the
	// message). It follows the EventItemCompleted of the message.
	EventAnnotations
	// EventCallOutput is rawResponseItem/completed of a function_call_output: after the end of
	// a model response, Codex has added the answer to a call to the thread. CallID names the
	// call. Status is StatusFailed if Codex has no such tool. Text says why a picture could not
	// be made, and is empty for any other answer.
	EventCallOutput
	// EventOffered is rawResponseItem/completed of additional_tools. For some models, Codex lists
	// the tools in this item before it asks the model: Text (the names, a line each).
	EventOffered
	// EventOwnCall is rawResponseItem/completed of a call of a type that only Codex's own tools
	// have: Name (the tool's name, or else the type of the call).
	EventOwnCall
	// EventItemCut is rawResponseItem/completed of a message that the model did not
	// finish (status incomplete): ItemID.
	EventItemCut
	// EventResponseCompleted is rawResponse/completed, the end of one model response: Usage (of
	// this response; may be nil) and Text (the provider's price for the response, a decimal
	// number without a currency; empty: not known).
	EventResponseCompleted
	// EventTokenUsage is thread/tokenUsage/updated: Usage is the thread's total.
	EventTokenUsage
	// EventError is the notification error: Err, and WillRetry when Codex tries
	// again by itself.
	EventError
	// EventTurnCompleted is turn/completed, the last event of a turn: Status,
	// and Err when it failed.
	EventTurnCompleted
	// eventTurnStarted is turn/started. It often brings the turn's id before the answer to
	// turn/start does. Consumers do not get it.
	eventTurnStarted
	// The notifications that become one of the events above, or are dropped.
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

// PictureTool is the name of Codex's own tool that makes pictures.
const PictureTool = pictureNamespace + ".imagegen"

// pictureNamespace is the namespace of PictureTool.
const pictureNamespace = "image_gen"

// Event is one notification of a turn. Kind says which fields are set.
type Event struct {
	Kind        EventKind
	Index       int
	WillRetry   bool
	Transparent bool // of a picture: a transparent background was asked for
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

// own copies the event's strings. Until then they share the memory of the line, which the next line
// overwrites. Each string is copied by itself, so that a short text does not keep a long message in
// memory. Constants and strings of the thread need no copy. [Thread.mayBelong] has copied the
// turn's id.
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

// ownItem returns a copy of the id of an item. Consecutive events of one item share the copy. Only
// the goroutine that reads the connection calls ownItem.
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
