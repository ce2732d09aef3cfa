package openai

import (
	"encoding/json"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ResponseBody folds the outputs of a turn into a Response object, which is the
// one that [ResponseStream] ends with.
type ResponseBody struct {
	fold
	failure error
}

// NewResponseBody returns an empty response.
func NewResponseBody(meta ResponseMeta) *ResponseBody {
	return &ResponseBody{fold: newFold(meta, noEvents{})}
}

// Add takes the next output of the turn; a response has one choice only.
// Outputs after the last are ignored.
func (b *ResponseBody) Add(_ int, out turn.Output) {
	if out.Kind == turn.OutputFailure && !b.done {
		b.failure = out.Err
	}
	over := b.done
	b.add(&out)
	if b.done && !over && b.failure == nil {
		b.keep()
	}
}

// Failure returns why the turn failed, or nil.
func (b *ResponseBody) Failure() error { return b.failure }

// JSON returns the Response object.
func (b *ResponseBody) JSON() []byte { return b.object() }

// cancelled is what a response says that was cancelled.
var cancelled = &Error{
	Status: http.StatusConflict, Type: typeServer, Code: "response_cancelled",
	Message: "The response was cancelled.",
}

// object is the Response as it is now.
func (r *response) object() []byte { return r.append(make([]byte, 0, r.size())) }

// context are the output items as a later response needs them: with the content
// of reasoning, whatever the client wants to see.
func (r *response) context() []json.RawMessage {
	items := make([]json.RawMessage, 0, len(r.items))
	for i := range r.items {
		items = append(items, r.items[i].append(nil, true))
	}
	return items
}

// ResponseRecord is a response as it is kept.
type ResponseRecord struct {
	Response json.RawMessage   // as its client got it
	Output   []json.RawMessage // its items as a later response needs them
}

// keep hands the response to whoever keeps it.
func (r *response) keep() {
	if r.meta.Keep != nil {
		r.meta.Keep(r.record())
	}
}

func (r *response) record() ResponseRecord {
	return ResponseRecord{Response: r.object(), Output: r.context()}
}

// noEvents is told nothing.
type noEvents struct{}

func (noEvents) added(*outputItem)            {}
func (noEvents) text(*outputItem, string)     {}
func (noEvents) partAdded(*outputItem)        {}
func (noEvents) summary(*outputItem, string)  {}
func (noEvents) partDone(*outputItem)         {}
func (noEvents) argument(*outputItem, string) {}
func (noEvents) ended(*outputItem)            {}
