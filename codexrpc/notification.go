package codexrpc

import (
	"cmp"
	"encoding/json"
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

// kindOf returns the kind of event for a notification of a turn, or 0 for other methods. It runs
// for every line that parseDelta does not parse, so it uses a switch, which is faster than a map.
func kindOf(method string) EventKind {
	switch method {
	case methodTextDelta: // for lines that parseDelta does not parse
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

// params reads the params of a notification into e and returns them as JSON. e.Kind becomes 0 if
// this client does not use the notification, say because it repeats an input item.
func (s *scanner) params(method string, e *Event) string {
	s.Peek()
	start := s.Pos()
	if e.Kind = kindOf(method); e.Kind == 0 {
		s.Value()
	} else {
		for more := s.Object(); more; more = s.More('}') {
			s.param(s.Name(), e)
		}
	}
	if e.Kind == eventRawItem || e.Kind == eventWarning {
		e.Kind = 0
	}
	return s.From(start)
}

func (s *scanner) param(name string, e *Event) {
	switch name {
	case "threadId":
		e.threadID = s.Text()
	case "turnId":
		if id := s.Text(); e.turnID == "" {
			e.turnID = id
		}
	case "itemId":
		e.ItemID = s.Text()
	case "delta":
		e.Text = s.Text()
	case "summaryIndex":
		e.Index = int(s.Integer())
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
		for more := s.Object(); more; more = s.More('}') {
			if s.Name() == "total" {
				e.Usage = s.usage()
			} else {
				s.Value()
			}
		}
	case "usageMetadata":
		e.Text = s.price()
	case "willRetry":
		e.WillRetry = s.Value() == "true"
	case "error":
		e.Err = s.turnError()
	case "message":
		s.warning(e)
	default:
		s.Value()
	}
}

// fallbackPrefix is the beginning of the warning that Codex gives up the WebSocket to the model
// provider and retries over HTTP. The reason follows the prefix.
const fallbackPrefix = "Falling back from WebSockets to HTTPS transport. "

// ageLimit is part of the reason if the WebSocket is as old as the provider allows (an hour).
const ageLimit = "connection limit reached"

// warning turns a warning with fallbackPrefix into an EventError. It ignores all other warnings.
// The EventError has no turn id, since the warning does not name the turn.
func (s *scanner) warning(e *Event) {
	if reason, ok := strings.CutPrefix(s.Text(), fallbackPrefix); ok && e.Kind == eventWarning {
		e.Kind, e.WillRetry, e.fellBack = EventError, true, !strings.Contains(reason, ageLimit)
		e.Err = (&TurnError{Message: strings.Clone(reason), Code: "responseStreamDisconnected"}).withLimitCode()
	}
}

func (s *scanner) turn(e *Event) {
	for more := s.Object(); more; more = s.More('}') {
		switch s.Name() {
		case "id":
			e.turnID = s.Text()
		case "status":
			e.Status = s.Text()
		case "error":
			e.Err = s.turnError()
		default:
			s.Value()
		}
	}
}

// item reads an item into e. When item returns, e.Text is set only for a completed message or
// picture, and e.Name only for a completed picture.
func (s *scanner) item(e *Event) {
	var picture struct{ result, prompt, status string }
	for more := s.Object(); more; more = s.More('}') {
		switch s.Name() {
		case "type":
			e.ItemType = s.Text()
		case "id":
			e.ItemID = s.Text()
		case "text":
			e.Text = s.Text()
		case "phase":
			e.Phase = s.Text()
		case "result":
			picture.result = s.Value()
		case "revisedPrompt":
			picture.prompt = s.Value()
		case "status":
			picture.status = s.Value()
		case "transparentBackground":
			e.Transparent = s.Value() == "true"
		case "failure":
			e.Err = s.pictureFailure()
		default:
			s.Value()
		}
	}
	if e.Kind == EventItemCompleted && e.ItemType == ItemPicture {
		e.Text, e.Name, e.Status = textAt(picture.result), textAt(picture.prompt), textAt(picture.status)
		return
	}
	e.Err, e.Transparent = nil, false
	if e.Kind != EventItemCompleted || e.ItemType != ItemAgentMessage {
		e.Text, e.Phase = "", ""
	}
}

// pictureFailure reads why a picture could not be made, or returns nil if the value is no object.
func (s *scanner) pictureFailure() *TurnError {
	isObject := s.Peek() == '{'
	var v struct {
		Type     string
		ResetsAt int64
	}
	// Members of an unexpected type stay empty.
	if _ = json.Unmarshal(wirejson.View(s.Value()), &v); !isObject {
		return nil
	}
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

// rawItem has the used members of an item of the Responses API. Codex's own form of the item lacks
// the arguments as the model wrote them, the encrypted content and the status.
type rawItem struct {
	kind, status, callID, name, namespace, arguments, encrypted, role, text string

	action, annotations, tools, output string // JSON
}

// rawItem reads a raw item into e. For an unused one e.Kind stays eventRawItem, and params drops
// it; consumers get the content from the event in Codex's own form.
func (s *scanner) rawItem(e *Event) {
	var item rawItem
	for more := s.Object(); more; more = s.More('}') {
		switch s.Name() {
		case "type":
			item.kind = s.Text()
		case "id":
			e.ItemID = s.Text()
		case "status":
			item.status = s.Text()
		case "call_id":
			item.callID = s.Text()
		case "name":
			item.name = s.Text()
		case "namespace":
			item.namespace = s.Text()
		case "arguments":
			item.arguments = s.Text()
		case "encrypted_content":
			item.encrypted = s.Text()
		case "action":
			item.action = s.Value()
		case "output":
			item.output = s.Value()
		case "tools":
			item.tools = s.Value()
		case "role":
			item.role = s.Text()
		case "content":
			item.text, item.annotations = s.messageContent()
		default:
			s.Value()
		}
	}
	item.setEvent(e)
}

// setEvent sets the kind and the fields of e. If this package does not use the item (for example, a
// finished message without annotations), e.Kind stays as it is.
func (item *rawItem) setEvent(e *Event) {
	switch item.kind {
	case itemFunctionCall:
		e.Kind, e.CallID, e.Name, e.Text = EventFunctionCall, item.callID, item.name, item.arguments
		if item.namespace == pictureNamespace {
			e.Name = pictureNamespace + "." + item.name
		}
		if item.status == StatusIncomplete {
			e.Status = StatusIncomplete
		}
	case itemCallOutput:
		e.Kind, e.ItemID, e.CallID, e.size = EventCallOutput, "", item.callID, 0 // the event is small, however long the result is
		if strings.HasPrefix(item.output, unsupportedCallPrefix) {
			e.Status = StatusFailed
		}
		if strings.HasPrefix(item.output, noPicturePrefix) && len(item.output) <= maxNoPictureOutput {
			e.Text = textAt(item.output)
		}
	case itemTools:
		e.Kind, e.ItemID, e.Text, e.size = EventOffered, "", toolNames(item.tools), 0
	case itemCustomCall, itemShellCall, itemToolSearch:
		e.Kind, e.Name = EventOwnCall, cmp.Or(item.name, item.kind)
	case ItemReasoning:
		e.Kind, e.Text = EventReasoningItem, item.encrypted
	case itemWebSearch:
		e.Kind, e.Text = EventWebSearch, item.action
	case itemMessage:
		if item.status == StatusIncomplete {
			e.Kind = EventItemCut
		} else if item.role == roleAssistant && item.annotations != "" {
			e.Kind, e.Text = EventAnnotations, item.annotations
			e.Index = utf8.RuneCountInString(item.text)
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

// toolNames returns the names of tools, or else their types, one per line. Of a namespace it
// returns the names of its tools, only those of [PictureTool]'s with the namespace in them.
func toolNames(tools string) string {
	var names strings.Builder
	writeToolNames(&names, "", tools)
	return names.String()
}

func writeToolNames(names *strings.Builder, prefix, tools string) {
	for v := range wirejson.Value(wirejson.View(tools)).Values() {
		tool := wirejson.Text(v)
		name := cmp.Or(textAt(tool, "name"), textAt(tool, "type"))
		if s := newScanner(v); s.Find("tools") {
			innerPrefix := prefix
			if name == pictureNamespace {
				innerPrefix = pictureNamespace + "."
			}
			writeToolNames(names, innerPrefix, s.Value())
		} else if name != "" {
			names.WriteString(prefix + name + "\n")
		}
	}
}

// messageContent reads the content of a message. If it has exactly one part, it returns that part's
// text and its annotations as a JSON array, or "". Otherwise both results are "".
func (s *scanner) messageContent() (text, annotations string) {
	if s.Peek() != '[' {
		s.Value()
		return "", ""
	}
	parts := 0
	for more := s.Enter(']'); more; more = s.More(']') {
		parts++
		for more := s.Object(); more; more = s.More('}') {
			switch s.Name() {
			case "text":
				text = s.Text()
			case "annotations":
				annotations = s.nonEmptyArray()
			default:
				s.Value()
			}
		}
	}
	if parts > 1 {
		return "", ""
	}
	return text, annotations
}

// nonEmptyArray reads a value and returns its JSON if it is a non-empty array, else "".
func (s *scanner) nonEmptyArray() string {
	v := wirejson.Value(wirejson.View(s.Value()))
	if v.Kind() != wirejson.KindArray || v.IsEmptyArray() {
		return ""
	}
	return wirejson.Text(v)
}

// maxTokens bounds a count of tokens, so that sums of counts do not overflow. Even the largest
// turns use only some millions.
const maxTokens = 1 << 40

// usage reads the counts of tokens in an object. It returns nil for any other value.
func (s *scanner) usage() (u *Usage) {
	if s.Peek() == '{' {
		u = new(Usage)
	}
	for more := s.Object(); more; more = s.More('}') {
		name := s.Name()
		count := min(max(s.Integer(), 0), maxTokens)
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
	}
	return u
}

// price reads usageMetadata and returns the provider's price for the response: the member amount,
// or else the member cost of metadata. The member metadata is the provider's own usage object. Its
// counts of tokens are not read, since they are the same as in the usage.
func (s *scanner) price() string {
	var v struct {
		Amount   string
		Metadata struct{ Cost json.RawMessage }
	}
	_ = json.Unmarshal(wirejson.View(s.Value()), &v) // members of an unexpected type stay empty
	return cmp.Or(v.Amount, string(v.Metadata.Cost))
}
