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

// kindOf returns what a notification of a turn becomes, or 0 if it is none. It is no map:
// it runs for every line but those of parseDelta.
func kindOf(method string) EventKind {
	switch method {
	case methodTextDelta: // if parseDelta leaves it
		return EventTextDelta
	case methodReasoningDelta:
		return EventReasoningDelta
	case methodItemStarted:
		return EventItemStarted
	case methodItemCompleted:
		return EventItemCompleted
	case methodRawItemCompleted:
		return eventRawItem
	case methodResponseCompleted:
		return EventResponseCompleted
	case methodTokenUsage:
		return EventTokenUsage
	case methodError:
		return EventError
	case methodWarning:
		return eventWarning
	case methodTurnStarted:
		return eventTurnStarted
	case methodTurnCompleted:
		return EventTurnCompleted
	}
	return 0
}

// params reads the params of a notification into an event. Its Kind stays 0 if it is of no
// use, such as the echo of an input item.
func (s *scanner) params(method string, e *Event) gjson.Result {
	e.Kind = kindOf(method)
	if e.Kind == 0 {
		return s.result()
	}
	s.peek()
	start := s.pos
	s.members(func(name string) { s.param(name, e) })
	if e.Kind == eventRawItem || e.Kind == eventWarning {
		e.Kind = 0
	}
	return gjson.Parse(view(s.line[start:s.pos]))
}

// param reads a member of the params.
func (s *scanner) param(name string, e *Event) {
	switch name {
	case "threadId":
		e.threadID = s.text()
	case "turnId":
		if id := s.text(); e.turnID == "" {
			e.turnID = id
		}
	case "itemId":
		e.ItemID = s.text()
	case "delta":
		e.Text = s.text()
	case "summaryIndex":
		e.Index = int(s.integer())
	case "item":
		if e.Kind == eventRawItem {
			s.rawItem(e)
		} else {
			s.item(e)
		}
	case "turn":
		s.turn(e)
	case "usage":
		e.Usage = s.usage()
	case "tokenUsage":
		s.members(func(name string) {
			if name == "total" {
				e.Usage = s.usage()
			} else {
				s.value()
			}
		})
	case "willRetry":
		e.WillRetry = s.result().Bool()
	case "error":
		e.Err = parseTurnError(s.result())
	case "message":
		s.warning(e)
	default:
		s.value()
	}
}

// fallbackWarning is the beginning of the warning that Codex gives up the WebSocket
// to the model provider and retries over HTTP. The reason follows.
const fallbackWarning = "Falling back from WebSockets to HTTPS transport. "

// warning reads the warning of a retry over HTTP as the error that it stands for. The
// warning does not name the turn. All other warnings are of no use.
func (s *scanner) warning(e *Event) {
	if reason, ok := strings.CutPrefix(s.text(), fallbackWarning); ok && e.Kind == eventWarning {
		e.Kind, e.WillRetry = EventError, true
		e.Err = &TurnError{Message: strings.Clone(reason), Code: "responseStreamDisconnected"}
	}
}

// turn reads a turn.
func (s *scanner) turn(e *Event) {
	failure := ""
	s.fields(field{"id", &e.turnID, nil}, field{"status", &e.Status, nil}, field{"error", nil, &failure})
	e.Err = parseTurnError(gjson.Parse(failure))
}

// item reads an item. Only a message that is completed has a text.
func (s *scanner) item(e *Event) {
	s.fields(field{"type", &e.ItemType, nil}, field{"id", &e.ItemID, nil}, field{"text", &e.Text, nil}, field{"phase", &e.Phase, nil})
	if e.Kind != EventItemCompleted || e.ItemType != ItemAgentMessage {
		e.Text, e.Phase = "", ""
	}
}

// The types of the raw items that are used.
const (
	itemFunctionCall = "function_call"
	itemCallOutput   = "function_call_output"
	itemMessage      = "message"
	itemWebSearch    = "web_search_call"
)

// encryptedContent is the member of a reasoning with its content.
const encryptedContent = "encrypted_content"

// rawItem reads function calls, reasoning, the outputs of calls, web searches, and messages
// that have annotations or that the model did not finish. Only the raw items have the
// arguments as the model wrote them, the encrypted content and the status. All other raw
// items come as items, too.
func (s *scanner) rawItem(e *Event) {
	var kind, role, encrypted, action, content string
	s.peek()
	start := s.pos
	s.fields(
		field{"type", &kind, nil}, field{"id", &e.ItemID, nil}, field{"status", &e.Status, nil},
		field{"call_id", &e.CallID, nil}, field{"name", &e.Name, nil}, field{"arguments", &e.Text, nil}, // of a call
		field{encryptedContent, &encrypted, nil}, field{"action", nil, &action}, // of a reasoning and a search
		field{"role", &role, nil}, field{"content", nil, &content}, // of a message
	)
	read := *e
	*e = Event{Kind: eventRawItem, ItemID: read.ItemID, threadID: read.threadID, turnID: read.turnID, size: read.size}
	switch kind {
	case itemFunctionCall:
		e.Kind, e.CallID, e.Name, e.Text = EventFunctionCall, read.CallID, read.Name, read.Text
		if read.Status == StatusIncomplete {
			e.Status = StatusIncomplete
		}
	case itemCallOutput:
		e.Kind, e.ItemID, e.size = EventCallOutput, "", 0 // small, however long the result
	case ItemReasoning:
		e.Kind, e.Text, e.Raw = EventReasoningItem, encrypted, view(s.line[start:s.pos])
	case itemWebSearch:
		e.Kind, e.Text = EventWebSearch, action
	case itemMessage:
		if read.Status == StatusIncomplete {
			e.Kind = EventItemCut
		} else if role == "assistant" {
			e.annotations(gjson.Parse(content))
		}
	}
}

// annotations makes e the event of a message's text, which is its only part, if that has
// annotations.
func (e *Event) annotations(content gjson.Result) {
	list := content.Get("0.annotations")
	if list.IsArray() && list.Get("0").Exists() && !content.Get("1").Exists() {
		e.Kind, e.Text = EventAnnotations, list.Raw
		e.Index = utf8.RuneCountInString(content.Get("0.text").Str)
	}
}

// maxTokens bounds a count of tokens, so that sums of them do not overflow. The largest
// turns have some millions.
const maxTokens = 1 << 40

// usage reads the usage of tokens, nil if it is no object.
func (s *scanner) usage() (u *Usage) {
	if s.peek() == '{' {
		u = new(Usage)
	}
	s.members(func(name string) {
		count := min(max(s.integer(), 0), maxTokens)
		switch name {
		case "totalTokens":
			u.TotalTokens = count
		case "inputTokens":
			u.InputTokens = count
		case "cachedInputTokens":
			u.CachedInputTokens = count
		case "cacheWriteInputTokens":
			u.CacheWriteInputTokens = count
		case "outputTokens":
			u.OutputTokens = count
		case "reasoningOutputTokens":
			u.ReasoningOutputTokens = count
		}
	})
	return u
}
