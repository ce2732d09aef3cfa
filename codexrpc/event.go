package codexrpc

import "strings"

// EventKind is the kind of an [Event], in words that logs and tests can show.
type EventKind string

const (
	// EventItemStarted is the notification item/started. Fields: ItemType and ItemID.
	EventItemStarted EventKind = "item started"
	// EventTextDelta is the notification item/agentMessage/delta. Fields: ItemID and Text.
	EventTextDelta EventKind = "text delta"
	// EventReasoningDelta is the notification item/reasoning/summaryTextDelta. Fields: ItemID,
	// Text, and Index (the number of the summary's part).
	EventReasoningDelta EventKind = "reasoning delta"
	// EventItemCompleted is the notification item/completed. Fields: ItemType and ItemID. An
	// agentMessage also has Text (its whole text) and Phase (if the model names one). An
	// imageGeneration also has Status, Text (the picture in base64, or empty), Name (the prompt of
	// the picture), Transparent, and Err if Codex says why there is no picture.
	EventItemCompleted EventKind = "item completed"
	// EventFunctionCall is the notification rawResponseItem/completed for a function_call. Fields:
	// ItemID, CallID, Name and Text (the arguments as the model wrote them). Status is
	// StatusIncomplete if the model did not finish the call. A call of Codex's own tool for
	// pictures has the Name [PictureTool], which has a dot; names of clients' tools have no dot.
	EventFunctionCall EventKind = "function call"
	// EventReasoningItem is the notification rawResponseItem/completed for a reasoning item.
	// Fields: ItemID and Text (the encrypted content, or empty if the provider gave none).
	EventReasoningItem EventKind = "reasoning item"
	// EventWebSearch is the notification rawResponseItem/completed for a web_search_call. Fields:
	// ItemID and Text (what the search did, as JSON, or empty).
	EventWebSearch EventKind = "web search"
	// EventAnnotations is the notification rawResponseItem/completed for a message that has
	// annotations. Fields: ItemID, Text (the annotations as a JSON array) and Index (the number of
	// characters of the message). It follows the EventItemCompleted of the message.
	EventAnnotations EventKind = "annotations"
	// EventCallOutput is the notification rawResponseItem/completed for a function_call_output.
	// Codex sends it after a model response, when the output of a tool call is in the thread.
	// Fields: CallID (of that call), Status (StatusFailed if Codex has no such tool) and Text (the
	// reason if a picture could not be made, else empty).
	EventCallOutput EventKind = "call output"
	// EventOffered is the notification rawResponseItem/completed for additional_tools. Codex sends
	// it for some models, before the request to the model. Fields: Text (the names of the offered
	// tools, one per line).
	EventOffered EventKind = "offered"
	// EventOwnCall is the notification rawResponseItem/completed for a call of one of Codex's own
	// tools that is no function_call. Fields: Name (of the tool, or else the type of the call).
	EventOwnCall EventKind = "own call"
	// EventItemCut is the notification rawResponseItem/completed for a message that the model did
	// not finish; its status is incomplete. Fields: ItemID.
	EventItemCut EventKind = "item cut"
	// EventResponseCompleted is the notification rawResponse/completed, the end of one model
	// response. Fields: Usage (of this response; may be nil) and Text (the provider's price for the
	// response, a decimal number without a currency; empty: not known).
	EventResponseCompleted EventKind = "response completed"
	// EventTokenUsage is the notification thread/tokenUsage/updated. Fields: Usage (the thread's
	// total).
	EventTokenUsage EventKind = "token usage"
	// EventError is the notification "error". Fields: Err, and WillRetry if Codex tries again by
	// itself.
	EventError EventKind = "error"
	// EventTurnCompleted is the notification turn/completed, the last event of a turn. Fields:
	// Status, and Err if the turn has failed.
	EventTurnCompleted EventKind = "turn completed"
	// eventTurnStarted is the notification turn/started. Consumers do not get this event. The
	// thread reads the turn's id from it, since it often arrives before the answer to turn/start.
	eventTurnStarted EventKind = "turn started"
	// eventRawItem and eventWarning are used only during parsing: parseMessage replaces them by
	// one of the kinds above, or drops the event.
	eventRawItem EventKind = "raw item"
	eventWarning EventKind = "warning"
)

// The values of [Event].Status.
const (
	StatusCompleted   = "completed"
	StatusInterrupted = "interrupted"
	StatusFailed      = "failed"
	StatusIncomplete  = "incomplete" // only of an item, never of a turn
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

const pictureNamespace = "image_gen"

// Event is one notification of a turn. Kind says which fields are set.
type Event struct {
	Kind        EventKind
	Index       int
	WillRetry   bool
	Transparent bool // only of a picture: a transparent background was asked for
	fellBack    bool // only of an EventError: Codex gives up the WebSocket to the model provider
	ItemType    string
	ItemID      string
	CallID      string
	Name        string
	Text        string
	Status      string
	Phase       string
	Usage       *Usage
	Err         *TurnError

	threadID string
	turnID   string
	size     int // size of the message in bytes, which counts towards the bound of the queue
}

// copyStrings replaces the strings, which share the line's memory, by copies. [Thread.mayBelong] has already
// copied the turn's id.
func (e *Event) copyStrings(t *Thread) {
	e.threadID, e.ItemID = t.id, t.copyItemID(e.ItemID)
	e.ItemType, e.Status = strings.Clone(e.ItemType), strings.Clone(e.Status)
	e.CallID, e.Name, e.Text, e.Phase = strings.Clone(e.CallID), strings.Clone(e.Name), strings.Clone(e.Text), strings.Clone(e.Phase)
}

// copyItemID returns a copy of the id of an item. Consecutive events of one item share the copy.
// Only the goroutine that reads the connection calls copyItemID.
func (t *Thread) copyItemID(id string) string {
	if id != t.lastItemID {
		t.lastItemID = strings.Clone(id)
	}
	return t.lastItemID
}

// itemUserMessage is the type of an item that repeats the input of a turn.
const itemUserMessage = "userMessage"
