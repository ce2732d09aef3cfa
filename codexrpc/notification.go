package codexrpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

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
	methodLoginCompleted    = "account/login/completed"
	methodConfigWarning     = "configWarning"
)

// unwantedNotifications are notifications that this package does not use. Initialize asks the
// app-server not to send them, unless the program wants all notifications.
var unwantedNotifications = []string{
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

// kinds has the kinds of events for the notifications of a turn. The deltas are for lines that parseDelta
// does not parse.
var kinds = map[string]EventKind{
	methodTextDelta:         EventTextDelta,
	methodReasoningDelta:    EventReasoningDelta,
	methodItemStarted:       EventItemStarted,
	methodItemCompleted:     EventItemCompleted,
	methodRawItemCompleted:  eventRawItem,
	methodResponseCompleted: EventResponseCompleted,
	methodTokenUsage:        EventTokenUsage,
	methodError:             EventError,
	methodWarning:           eventWarning,
	methodTurnStarted:       eventTurnStarted,
	methodTurnCompleted:     EventTurnCompleted,
}

// setParams reads the params of a notification. e.Kind becomes empty if the notification is not used.
func (e *Event) setParams(params wirejson.Value) {
	var threadID, turnID, itemID, delta, index, item, turn, used, total, price, willRetry, failure, message wirejson.Value
	params.Pick(wirejson.Into("threadId", &threadID), wirejson.Into("turnId", &turnID), wirejson.Into("itemId", &itemID),
		wirejson.Into("delta", &delta), wirejson.Into("summaryIndex", &index), wirejson.Into("item", &item),
		wirejson.Into("turn", &turn), wirejson.Into("usage", &used), wirejson.Into("tokenUsage", &total),
		wirejson.Into("usageMetadata", &price), wirejson.Into("willRetry", &willRetry), wirejson.Into("error", &failure),
		wirejson.Into("message", &message))
	e.threadID, e.turnID, e.ItemID = textOf(threadID), textOf(turnID), textOf(itemID)
	switch e.Kind {
	case EventTextDelta, EventReasoningDelta:
		e.Text = textOf(delta)
		e.Index, _ = strconv.Atoi(wirejson.Text(index))
	case EventItemStarted, EventItemCompleted:
		e.setItem(item)
	case eventRawItem:
		e.setRawItem(item)
	case EventResponseCompleted:
		e.Usage, e.Text = usage(used), priceOf(price)
	case EventTokenUsage:
		total.Pick(wirejson.Into("total", &used))
		e.Usage = usage(used)
	case EventError:
		e.WillRetry, e.Err = willRetry.IsTrue(), turnError(failure)
	case eventWarning:
		e.setWarning(textOf(message))
	case eventTurnStarted, EventTurnCompleted:
		var status wirejson.Value
		turn.Pick(wirejson.Into("id", &turnID), wirejson.Into("status", &status), wirejson.Into("error", &failure))
		e.turnID, e.Status, e.Err = textOf(turnID), textOf(status), turnError(failure)
	}
}

// textOf returns the text of a string, which shares the memory of the line, or "" for another value.
func textOf(v wirejson.Value) string {
	text, _ := v.AsText()
	return text
}

// fallbackPrefix is the beginning of the warning that Codex gives up the WebSocket to the model
// provider and retries over HTTP. The reason follows the prefix.
const fallbackPrefix = "Falling back from WebSockets to HTTPS transport. "

// ageLimit is part of the reason if the WebSocket is as old as the provider allows (an hour).
const ageLimit = "connection limit reached"

// setWarning makes a warning with fallbackPrefix an EventError. All other warnings are ignored. The
// EventError has no turn id, since the warning does not name the turn.
func (e *Event) setWarning(text string) {
	e.Kind = ""
	if reason, ok := strings.CutPrefix(text, fallbackPrefix); ok {
		e.Kind, e.WillRetry, e.fellBack = EventError, true, !strings.Contains(reason, ageLimit)
		e.Err = (&TurnError{Message: strings.Clone(reason), Code: "responseStreamDisconnected"}).withLimitCode()
	}
}

// setItem reads the type and the id of an item, and the content of a completed message or picture.
func (e *Event) setItem(item wirejson.Value) {
	var kind, id, text, phase, result, prompt, status, transparent, failure wirejson.Value
	item.PickTyped(&kind, wirejson.Into("id", &id), wirejson.Into("text", &text), wirejson.Into("phase", &phase),
		wirejson.Into("result", &result), wirejson.Into("revisedPrompt", &prompt), wirejson.Into("status", &status),
		wirejson.Into("transparentBackground", &transparent), wirejson.Into("failure", &failure))
	e.ItemType, e.ItemID = textOf(kind), textOf(id)
	switch {
	case e.Kind == EventItemStarted:
	case e.ItemType == ItemAgentMessage:
		e.Text, e.Phase = textOf(text), textOf(phase)
	case e.ItemType == ItemPicture:
		e.Text, e.Name, e.Status = textOf(result), textOf(prompt), textOf(status)
		e.Transparent, e.Err = transparent.IsTrue(), pictureFailure(failure)
	}
}

func pictureFailure(failure wirejson.Value) *TurnError {
	if failure.Kind() != wirejson.KindObject {
		return nil
	}
	var v struct {
		Type     string
		ResetsAt int64
	}
	_ = json.Unmarshal(failure, &v) // members of an unexpected type stay empty
	return &TurnError{Code: v.Type, ResetsAt: unixTime(v.ResetsAt)}
}

const (
	itemFunctionCall = "function_call"
	itemCallOutput   = "function_call_output"
	itemMessage      = "message"
	itemWebSearch    = "web_search_call"
	itemTools        = "additional_tools"
	// The next three are types of calls that only Codex's own tools have: freeform tools such as
	// exec and apply_patch, a shell, and the search for tools.
	itemCustomCall = "custom_tool_call"
	itemShellCall  = "local_shell_call"
	itemToolSearch = "tool_search_call"
)

const roleAssistant = "assistant"

// setRawItem reads an item of the Responses API. A raw item has what Codex's own form of the item (see
// setItem) lacks: the arguments as the model wrote them, the encrypted content and the status. If the
// raw item has nothing that is used, such as a finished message without annotations, e.Kind becomes empty:
// the event in Codex's own form is enough.
func (e *Event) setRawItem(item wirejson.Value) {
	var kind, id, status, callID, name, namespace, arguments, encrypted, action, output, tools, role, content wirejson.Value
	item.PickTyped(&kind, wirejson.Into("id", &id), wirejson.Into("status", &status), wirejson.Into("call_id", &callID),
		wirejson.Into("name", &name), wirejson.Into("namespace", &namespace), wirejson.Into("arguments", &arguments),
		wirejson.Into("encrypted_content", &encrypted), wirejson.Into("action", &action), wirejson.Into("output", &output),
		wirejson.Into("tools", &tools), wirejson.Into("role", &role), wirejson.Into("content", &content))
	e.Kind, e.ItemID = "", textOf(id)
	switch textOf(kind) {
	case itemFunctionCall:
		e.Kind, e.CallID, e.Name, e.Text = EventFunctionCall, textOf(callID), textOf(name), textOf(arguments)
		if namespace.Is(pictureNamespace) {
			e.Name = pictureNamespace + "." + e.Name
		}
		if status.Is(StatusIncomplete) {
			e.Status = StatusIncomplete
		}
	case itemCallOutput:
		e.Kind, e.ItemID, e.CallID, e.size = EventCallOutput, "", textOf(callID), 0 // the event is small, however long the result is
		if bytes.HasPrefix(output, []byte(unsupportedCallPrefix)) {
			e.Status = StatusFailed
		}
		if bytes.HasPrefix(output, []byte(noPicturePrefix)) && len(output) <= maxNoPictureOutput {
			e.Text = textOf(output)
		}
	case itemTools:
		var names strings.Builder
		writeToolNames(&names, "", tools)
		e.Kind, e.ItemID, e.Text, e.size = EventOffered, "", names.String(), 0
	case itemCustomCall, itemShellCall, itemToolSearch:
		e.Kind, e.Name = EventOwnCall, cmp.Or(textOf(name), textOf(kind))
	case ItemReasoning:
		e.Kind, e.Text = EventReasoningItem, textOf(encrypted)
	case itemWebSearch:
		e.Kind, e.Text = EventWebSearch, wirejson.Text(action)
	case itemMessage:
		if status.Is(StatusIncomplete) {
			e.Kind = EventItemCut
		} else if role.Is(roleAssistant) {
			e.setAnnotations(content)
		}
	}
}

// unsupportedCallPrefix begins the output of a call, as JSON, if Codex does not know the tool.
const unsupportedCallPrefix = `"unsupported call: `

// noPicturePrefix is how the output of a call begins, as JSON, if a picture could not be made. The
// reason in the output is not read if the output has more than maxNoPictureOutput bytes.
const (
	noPicturePrefix    = `"image generation failed: `
	maxNoPictureOutput = 64 << 10
)

// writeToolNames writes the name of each tool with the prefix, one per line. A tool without a name is named
// by its type. Instead of a namespace, it writes the tools in the namespace. Only the namespace of
// [PictureTool] becomes the prefix of its tools.
func writeToolNames(names *strings.Builder, prefix string, tools wirejson.Value) {
	for tool := range tools.Values() {
		var kind, name, inner wirejson.Value
		tool.PickTyped(&kind, wirejson.Into("name", &name), wirejson.Into("tools", &inner))
		text := cmp.Or(textOf(name), textOf(kind))
		switch {
		case inner != nil && text == pictureNamespace:
			writeToolNames(names, pictureNamespace+".", inner)
		case inner != nil:
			writeToolNames(names, prefix, inner)
		case text != "":
			names.WriteString(prefix + text + "\n")
		}
	}
}

// setAnnotations makes e an EventAnnotations if a message has exactly one part, which has annotations.
func (e *Event) setAnnotations(content wirejson.Value) {
	if content.Kind() != wirejson.KindArray {
		return
	}
	parts := 0
	var text, annotations wirejson.Value
	for part := range content.Values() {
		parts++
		part.Pick(wirejson.Into("text", &text), wirejson.Into("annotations", &annotations))
	}
	if parts == 1 && annotations.Kind() == wirejson.KindArray && !annotations.IsEmptyArray() {
		e.Kind, e.Text, e.Index = EventAnnotations, wirejson.Text(annotations), utf8.RuneCountInString(textOf(text))
	}
}

// maxTokens bounds a count of tokens, so that sums of counts do not overflow. Even the largest
// turns use only some millions.
const maxTokens = 1 << 40

func usage(counts wirejson.Value) *Usage {
	if counts.Kind() != wirejson.KindObject {
		return nil
	}
	var total, input, cached, cacheWrite, output, reasoning wirejson.Value
	counts.Pick(wirejson.Into("totalTokens", &total), wirejson.Into("inputTokens", &input),
		wirejson.Into("cachedInputTokens", &cached), wirejson.Into("cacheWriteInputTokens", &cacheWrite),
		wirejson.Into("outputTokens", &output), wirejson.Into("reasoningOutputTokens", &reasoning))
	return &Usage{tokens(total), tokens(input), tokens(cached), tokens(cacheWrite), tokens(output), tokens(reasoning)}
}

// tokens reads a count of tokens; anything but a number is 0.
func tokens(count wirejson.Value) int64 {
	n, _ := strconv.ParseFloat(wirejson.Text(count), 64)
	return int64(min(max(n, 0), maxTokens))
}

// priceOf returns the provider's price for the response in usageMetadata: the member amount, or else
// the member cost of metadata. The member metadata is the provider's own usage object. Its counts of
// tokens are not read, since they are the same as in the usage.
func priceOf(usageMetadata wirejson.Value) string {
	var amount, metadata, cost wirejson.Value
	usageMetadata.Pick(wirejson.Into("amount", &amount), wirejson.Into("metadata", &metadata))
	metadata.Pick(wirejson.Into("cost", &cost))
	return cmp.Or(textOf(amount), wirejson.Text(cost))
}
