package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The values of the status of a Response. An item has one of the first three.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

type outputItem struct {
	outputJSON        // without its texts and arguments
	providerID string // the provider's id of a reasoning item or a web search
	index      int    // the index among the items that the client sees; hidden: the client does not see this item

	text             strings.Builder   // the text of the open part, the arguments of a call, or the action of a web search
	parts            []string          // the complete parts of a message's content, or of the summary of a reasoning item
	openPart         int               // Codex's index of the open part
	annotations      []json.RawMessage // the annotations of a message's text
	encryptedContent string            // the encrypted content of a reasoning item

	tool originalTool // if the item is a call: the called tool
}

func (s *Encoder) responseJSON() []byte {
	state := s.state
	state.Output = make([]outputJSON, 0, s.shownCount)
	for _, i := range s.items {
		if i.index != hidden {
			state.Output = append(state.Output, i.asJSON(s.meta.request.Encrypted))
		}
	}
	object := wirejson.Append(nil, state)
	object[len(object)-1] = ','
	return append(object, s.meta.settingsJSON[1:]...)
}

// asJSON returns the current state of the item for the JSON encoder. withEncrypted says whether reasoning
// has its encrypted content.
func (i *outputItem) asJSON(withEncrypted bool) outputJSON {
	w, done, arguments := i.outputJSON, i.Status != statusInProgress, ""
	if done {
		arguments = i.text.String()
	}
	parts := make([]textPart, len(i.parts))
	for k, text := range i.parts {
		parts[k] = i.textPart(text)
	}
	switch i.Type {
	case typeMessage:
		w.Role, w.Content = "assistant", parts
	case typeReasoning:
		if w.Summary = parts; withEncrypted && done {
			w.Encrypted = wirejson.OrNull(i.encryptedContent)
		}
	case typeToolSearch:
		w.Execution, w.Arguments = "client", json.RawMessage("{}")
		if json.Valid([]byte(arguments)) {
			w.Arguments = json.RawMessage(arguments)
		}
	case typeCustomCall:
		input := prompt.CustomInput(arguments)
		w.Namespace, w.Name, w.Input = i.tool.namespace, i.tool.name, &input
	case typeCompaction:
		w.Status, w.Encrypted = "", &i.encryptedContent
	case typeWebSearch:
		w.Action = searchAction(arguments)
	case typeShellCall, typePatchCall:
		w.clientCall = newClientCall(i.tool, arguments)
	default: // a call of a function
		w.Namespace, w.Name, w.Arguments = i.tool.namespace, i.tool.name, &arguments
	}
	return w
}

// responseCodes are the codes (ResponseErrorCode) by the types of errors. Other types have server_error.
var responseCodes = map[string]string{
	apierror.TypeRateLimit: "rate_limit_exceeded", apierror.TypeQuota: "rate_limit_exceeded", apierror.TypeInvalidRequest: "invalid_prompt",
}

// keepResponse returns the JSON of the Response, and passes it to Meta.Keep. If Keep returns false, the
// JSON has "store":false.
func (s *Encoder) keepResponse() []byte {
	if s.meta.request.compact {
		return s.compactedJSON()
	}
	object := s.responseJSON()
	if s.meta.Keep == nil || s.meta.Keep(api.Record{Response: object, Output: s.storedOutput(object), Well: s.state.Error == nil}) {
		return object
	}
	// The members after `store` are strings, in which quotes are escaped. So the last match is `store`.
	at := bytes.LastIndex(object, []byte(`"store":true,`))
	if at < 0 {
		return object
	}
	return slices.Concat(object[:at], []byte(`"store":false`), object[at+len(`"store":true`):])
}

// storedOutput returns the items of the output for a store. object is the JSON of the Response. Items share
// the memory of object, except those that the client does not get, or gets without encrypted content.
func (s *Encoder) storedOutput(object []byte) []json.RawMessage {
	// No JSON string contains "output":[ since quotes in a string are escaped.
	at := bytes.Index(object, []byte(`"output":[`)) + len(`"output":`)
	shown := make([]json.RawMessage, 0, s.shownCount)
	for _, v := range wirejson.Value(object[at:]).Elements() { // up to the end of the list, not of object
		shown = append(shown, json.RawMessage(v[:len(v):len(v)]))
	}
	items := make([]json.RawMessage, len(s.items))
	for k, i := range s.items {
		if i.index == hidden || !s.meta.request.Encrypted && i.encryptedContent != "" {
			items[k] = wirejson.Append(nil, i.asJSON(true))
		} else {
			items[k] = shown[i.index]
		}
	}
	return items
}

// InProgressSize returns the size of the JSON that InProgress returns, in bytes, or somewhat more.
func (m Meta) InProgressSize() int64 { return int64(len(m.settingsJSON)) + 1024 }

// InProgress returns the JSON of a Response in progress, without output.
func (m Meta) InProgress() json.RawMessage { return NewEncoder(m).responseJSON() }
