package responses

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// The values of the status of a Response. An item has one of the first three.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// response is a Response while it is made.
type response struct {
	meta   Meta
	suffix string
	state  responseState // without its output; the usage is 0 until it ends well
	items  []*outputItem // in their order
	shown  int           // how many of them the client sees
}

// outputItem is one item of a response's output.
type outputItem struct {
	kind   string // its type
	id     string
	source string // the provider's id of a reasoning
	index  int    // among those that the client sees; -1: it sees nothing of it
	status string

	text        strings.Builder    // of a message
	annotations []json.RawMessage  // of that text
	phase       string             // of a message that has ended, if the model named one
	parts       []*strings.Builder // of a reasoning's summary
	part        int                // the part under way, as Codex counts
	encrypted   string             // the content of a reasoning

	call      int // of a call: its index in the turn
	callID    string
	form      toolForm
	arguments strings.Builder
}

func newResponse(meta Meta) *response {
	return &response{
		meta:   meta,
		suffix: strings.TrimPrefix(meta.ID, responseid.Prefix),
		state:  responseState{ID: meta.ID, Object: "response", CreatedAt: meta.Created, Status: statusInProgress},
	}
}

// object returns the JSON of the Response as it is now.
func (r *response) object() []byte {
	state := r.state
	state.Output = make([]outputJSON, 0, r.shown)
	for _, i := range r.items {
		if i.index != hidden {
			state.Output = append(state.Output, i.wire(r.meta.encrypted))
		}
	}
	object := jsontext.Append(nil, state)
	object[len(object)-1] = ','
	return append(object, r.meta.settings[1:]...)
}

// wire returns the item as it is now, for JSON.
func (i *outputItem) wire(encrypted bool) outputJSON {
	w, done := outputJSON{ID: i.id, Type: i.kind, Status: i.status}, i.status != statusInProgress
	arguments := ""
	if done {
		arguments = i.arguments.String()
	}
	switch i.kind {
	case itemMessageType:
		w.Phase, w.Role, w.Content = i.phase, "assistant", []outputText{}
		if done {
			w.Content = []outputText{i.outputText()}
		}
	case itemReasoningType:
		w.Summary = make([]summaryText, len(i.parts))
		for k, part := range i.parts {
			w.Summary[k] = newSummaryText(part.String())
		}
		if encrypted && done {
			w.Encrypted = jsontext.OrNull(i.encrypted)
		}
	case itemSearch:
		w.CallID, w.Execution, w.Arguments = i.callID, "client", json.RawMessage("{}")
		if json.Valid([]byte(arguments)) {
			w.Arguments = json.RawMessage(arguments)
		}
	case itemCustom:
		input := prompt.CustomInput(arguments)
		w.CallID, w.Namespace, w.Name, w.Input = i.callID, i.form.namespace, i.form.name, &input
	case itemWebSearch:
		w.Action = searchAction(arguments)
	case itemShell, itemLocalShell, itemPatch, itemComputer:
		w.CallID, w.clientCall = i.callID, newClientCall(i.form, arguments)
	default:
		w.CallID, w.Namespace, w.Name, w.Arguments = i.callID, i.form.namespace, i.form.name, &arguments
	}
	return w
}

// responseCode returns the code of an error in a Response. There are few
// (ResponseErrorCode).
func responseCode(e *apierror.Error) string {
	switch e.Type {
	case apierror.TypeRateLimit, apierror.TypeQuota:
		return "rate_limit_exceeded"
	case apierror.TypeInvalidRequest:
		return "invalid_prompt"
	}
	return "server_error"
}

// Record is a response for a store.
type Record struct {
	Response json.RawMessage // as its client got it
	Output   []Item          // its items as a later response needs them
	Well     bool            // the turn has ended well, perhaps early
}

// Item is an item for a later response. It has the encrypted content of reasoning, even
// if the client did not ask for that.
type Item struct {
	// From and To are its place in the Response, in bytes. Nearly all items are there
	// as they are needed, so they are not kept twice.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Own is the item if the Response lacks it, or a part of it; else nil.
	Own json.RawMessage `json:"own,omitempty"`
}

// keep returns the JSON of the whole Response, after passing it to Meta.Keep.
func (r *response) keep() []byte {
	object := r.object()
	if r.meta.Keep != nil {
		r.meta.Keep(Record{Response: object, Output: r.output(object), Well: r.state.Error == nil})
	}
	return object
}

// output returns the items. object is the JSON of the Response.
func (r *response) output(object []byte) []Item {
	items := make([]Item, len(r.items))
	// Strings cannot contain this: their quotes are escaped.
	at := bytes.Index(object, []byte(`"output":[`)) + len(`"output":`)
	array := jsontext.Value(object[at:])
	shown := make([]Item, 0, r.shown)
	for _, v := range array.Elements() {
		at++ // past the bracket or the comma
		shown = append(shown, Item{From: at, To: at + len(v)})
		at += len(v)
	}
	for k, i := range r.items {
		if i.index == hidden || !r.meta.encrypted && i.encrypted != "" {
			items[k].Own = jsontext.Append(nil, i.wire(true))
		} else {
			items[k] = shown[i.index]
		}
	}
	return items
}

// running and lost are how the state of a Response begins that goes on, and of one whose
// server has ended.
var (
	running = []byte(`"status":"in_progress","completed_at":null,"error":null`)
	lost    = []byte(`"status":"failed","completed_at":null,"error":{"code":"server_error","message":` +
		`"The server that made the response has ended before the response did, or could not store it. Please try again."}`)
)

// Lost returns the Response of InProgress as one that has failed, since it did not end.
func Lost(inProgress json.RawMessage) json.RawMessage {
	return bytes.Replace(inProgress, running, lost, 1)
}

// InProgress returns the JSON of a Response in progress, without output.
func (m Meta) InProgress() json.RawMessage { return newResponse(m).object() }
