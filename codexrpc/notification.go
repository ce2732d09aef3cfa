package codexrpc

import (
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// The notifications that this client uses.
const (
	methodTextDelta         = "item/agentMessage/delta"
	methodReasoningDelta    = "item/reasoning/summaryTextDelta"
	methodItemStarted       = "item/started"
	methodItemCompleted     = "item/completed"
	methodRawItemCompleted  = "rawResponseItem/completed"
	methodResponseCompleted = "rawResponse/completed"
	methodTokenUsage        = "thread/tokenUsage/updated"
	methodError             = "error"
	methodWarning           = "warning"
	methodTurnStarted       = "turn/started"
	methodTurnCompleted     = "turn/completed"
	methodRateLimitsUpdated = "account/rateLimits/updated"
	methodAccountUpdated    = "account/updated"
	methodConfigWarning     = "configWarning"
)

// unused are the notifications that the app-server is asked not to send.
var unused = []string{
	"app/list/updated",
	"command/exec/outputDelta",
	"hook/completed",
	"hook/started",
	"item/commandExecution/outputDelta",
	"item/fileChange/outputDelta",
	"item/fileChange/patchUpdated",
	"item/mcpToolCall/progress",
	"item/plan/delta",
	"item/reasoning/summaryPartAdded",
	"item/reasoning/textDelta",
	"mcpServer/startupStatus/updated",
	"remoteControl/status/changed",
	"serverRequest/resolved",
	"skills/changed",
	"thread/closed",
	"thread/settings/updated",
	"thread/started",
	"thread/status/changed",
	"turn/diff/updated",
	"turn/plan/updated",
}

// expected are notifications that are received and need no action.
var expected = map[string]bool{
	"deprecationNotice": true,
	"guardianWarning":   true,
	"model/rerouted":    true,
	"thread/compacted":  true, // item/started contextCompaction says the same, earlier
}

// decoders decode the params of each notification that this client uses into an
// event, which has the ids of its thread and its turn. They leave its Kind at 0 if it is of no use, such as the echo of an input
// item.
var decoders = map[string]func(params gjson.Result, e *Event){
	methodTextDelta:         decodeTextDelta,
	methodReasoningDelta:    decodeReasoningDelta,
	methodItemStarted:       decodeItemStarted,
	methodItemCompleted:     decodeItemCompleted,
	methodRawItemCompleted:  decodeRawItem,
	methodResponseCompleted: decodeResponse,
	methodTokenUsage:        decodeTokenUsage,
	methodError:             decodeError,
	methodWarning:           decodeWarning,
	methodTurnStarted:       decodeTurnStarted,
	methodTurnCompleted:     decodeTurnCompleted,
}

// The deltas that parseDelta leaves.

func decodeTextDelta(params gjson.Result, e *Event) {
	e.Kind = EventTextDelta
	e.ItemID = params.Get("itemId").Str
	e.Text = params.Get("delta").Str
}

func decodeReasoningDelta(params gjson.Result, e *Event) {
	decodeTextDelta(params, e)
	e.Kind = EventReasoningDelta
	e.Index = int(params.Get("summaryIndex").Int())
}

func decodeItemStarted(params gjson.Result, e *Event) {
	e.Kind = EventItemStarted
	item := params.Get("item")
	e.ItemType = item.Get("type").Str
	e.ItemID = item.Get("id").Str
}

func decodeItemCompleted(params gjson.Result, e *Event) {
	decodeItemStarted(params, e)
	e.Kind = EventItemCompleted
	if e.ItemType == ItemAgentMessage {
		e.Text = params.Get("item.text").Str
		e.Phase = params.Get("item.phase").Str
	}
}

// The types of the raw items that are decoded.
const (
	itemFunctionCall = "function_call"
	itemCallOutput   = "function_call_output"
	itemMessage      = "message"
	itemWebSearch    = "web_search_call"
)

// encryptedContent is the member of a reasoning with its content.
const encryptedContent = "encrypted_content"

// decodeRawItem decodes function calls, reasoning, the outputs of calls, and messages that the model did
// not finish. Only the raw items have the arguments as the model wrote them, the
// encrypted content and the status. All other raw items come as items, too.
func decodeRawItem(params gjson.Result, e *Event) {
	item := params.Get("item")
	switch item.Get("type").Str {
	case itemFunctionCall:
		e.Kind = EventFunctionCall
		e.CallID = item.Get("call_id").Str
		e.Name = item.Get("name").Str
		e.Text = item.Get("arguments").Str
		if item.Get("status").Str == StatusIncomplete {
			e.Status = StatusIncomplete
		}
	case itemCallOutput:
		*e = Event{Kind: EventCallOutput, threadID: e.threadID, turnID: e.turnID} // small, however long the result
		return
	case ItemReasoning:
		e.Kind = EventReasoningItem
		e.Text, e.Raw = item.Get(encryptedContent).Str, item.Raw
	case itemWebSearch:
		e.Kind = EventWebSearch
		e.Text = item.Get("action").Raw
	case itemMessage:
		decodeMessage(item, e)
		if e.Kind == 0 {
			return
		}
	default:
		return
	}
	e.ItemID = item.Get("id").Str
}

// decodeMessage decodes a message that the model did not finish, or whose text, which is
// its only part, has annotations.
func decodeMessage(item gjson.Result, e *Event) {
	if item.Get("status").Str == StatusIncomplete {
		e.Kind = EventItemCut
		return
	}
	annotations := item.Get("content.0.annotations")
	if item.Get("role").Str == "assistant" && annotations.IsArray() && annotations.Get("0").Exists() && !item.Get("content.1").Exists() {
		e.Kind = EventAnnotations
		e.Text = annotations.Raw
		e.Index = utf8.RuneCountInString(item.Get("content.0.text").Str)
	}
}

func decodeResponse(params gjson.Result, e *Event) {
	e.Kind = EventResponseCompleted
	e.Usage = parseUsage(params.Get("usage"))
}

func decodeTokenUsage(params gjson.Result, e *Event) {
	e.Kind = EventTokenUsage
	e.Usage = parseUsage(params.Get("tokenUsage.total"))
}

func decodeError(params gjson.Result, e *Event) {
	e.Kind = EventError
	e.WillRetry = params.Get("willRetry").Bool()
	e.Err = parseTurnError(params.Get("error"))
}

// fallbackWarning is the beginning of the warning that Codex gives up the WebSocket
// to the model provider and retries over HTTP. The reason follows.
const fallbackWarning = "Falling back from WebSockets to HTTPS transport. "

// decodeWarning decodes the warning of a retry over HTTP as the error that it stands
// for. The warning does not name the turn. All other warnings are of no use.
func decodeWarning(params gjson.Result, e *Event) {
	reason, ok := strings.CutPrefix(params.Get("message").Str, fallbackWarning)
	if !ok {
		return
	}
	e.Kind = EventError
	e.WillRetry = true
	e.Err = &TurnError{Message: strings.Clone(reason), Code: "responseStreamDisconnected"}
}

func decodeTurnStarted(params gjson.Result, e *Event) {
	e.Kind = eventTurnStarted
	e.turnID = params.Get("turn.id").Str
}

func decodeTurnCompleted(params gjson.Result, e *Event) {
	e.Kind = EventTurnCompleted
	turn := params.Get("turn")
	e.turnID = turn.Get("id").Str
	e.Status = turn.Get("status").Str
	e.Err = parseTurnError(turn.Get("error"))
}

func parseUsage(v gjson.Result) *Usage {
	if !v.IsObject() {
		return nil
	}
	return &Usage{
		TotalTokens:           tokens(v.Get("totalTokens")),
		InputTokens:           tokens(v.Get("inputTokens")),
		CachedInputTokens:     tokens(v.Get("cachedInputTokens")),
		CacheWriteInputTokens: tokens(v.Get("cacheWriteInputTokens")),
		OutputTokens:          tokens(v.Get("outputTokens")),
		ReasoningOutputTokens: tokens(v.Get("reasoningOutputTokens")),
	}
}

// maxTokens bounds a count of tokens, so that sums of them do not overflow. The largest
// turns have some millions.
const maxTokens = 1 << 40

// tokens returns a count of tokens.
func tokens(v gjson.Result) int64 { return min(max(v.Int(), 0), maxTokens) }
