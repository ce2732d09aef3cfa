package responses

import (
	"encoding/json"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body folds the outputs of a turn into a Response object, which is the
// one that [Stream] ends with.
type Body struct {
	fold
	whole []byte // once the turn has ended well
}

// NewBody returns an empty response.
func NewBody(meta Meta) *Body {
	return &Body{fold: newFold(meta, noEvents{})}
}

// Add takes the next output of the turn; a response has one choice only.
// Outputs after the last are ignored.
func (b *Body) Add(_ int, out turn.Output) {
	if b.done {
		return
	}
	b.add(&out)
	if b.done {
		b.whole = b.keep()
	}
}

// JSON returns the Response object, once the turn has ended well.
func (b *Body) JSON() []byte { return b.whole }

// ErrCancelled is what a response says that was cancelled. It must not be changed.
var ErrCancelled = &apierror.Error{
	Status: http.StatusConflict, Type: apierror.TypeServer, Code: apierror.CodeResponseCancelled,
	Message: "The response was cancelled.",
}

// object is the Response as it is now.
func (r *response) object() []byte { return r.append(make([]byte, 0, r.size())) }

// Record is a response as it is kept.
type Record struct {
	Response json.RawMessage // as its client got it
	Output   []Item          // its items as a later response needs them
}

// Item is an item as a later response needs it: with the content of
// reasoning, whatever the client wanted to see.
type Item struct {
	// From and To are its place in the Response, in bytes. Nearly all items are there
	// as they are needed, and are not kept twice.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Own is the item if the Response has less of it, or nothing; else nil.
	Own json.RawMessage `json:"own,omitempty"`
}

// keep makes the whole object, and hands it to whoever keeps it.
func (r *response) keep() []byte {
	object := r.object()
	if r.meta.Keep != nil {
		r.meta.Keep(Record{Response: object, Output: r.output()})
	}
	return object
}

// output are the items, of which the client's are in the object appended last.
func (r *response) output() []Item {
	items := make([]Item, len(r.items))
	for k := range r.items {
		i := &r.items[k]
		if i.index == hidden || !r.meta.encrypted && i.encrypted != "" {
			items[k].Own = i.append(nil, true)
			continue
		}
		items[k].From, items[k].To = i.from, i.to
	}
	return items
}

// InProgress is the Response object of a turn that goes on, without an output.
func (m Meta) InProgress() json.RawMessage { return newResponse(m).object() }

// noEvents is told nothing.
type noEvents struct{}

func (noEvents) added(*outputItem)            {}
func (noEvents) text(*outputItem, string)     {}
func (noEvents) partAdded(*outputItem)        {}
func (noEvents) summary(*outputItem, string)  {}
func (noEvents) partDone(*outputItem)         {}
func (noEvents) argument(*outputItem, string) {}
func (noEvents) ended(*outputItem)            {}
