package responses

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Body folds the outputs of a turn into a Response, the same with which [Stream] ends.
type Body struct {
	fold
	whole []byte // once the turn has ended well
}

// NewBody returns an empty response.
func NewBody(meta Meta) *Body {
	return &Body{fold: newFold(meta, noEvents{})}
}

// Add adds the next output of the turn. A response has one choice only. Outputs after
// the last are ignored.
func (b *Body) Add(_ int, out turn.Output) {
	if b.done {
		return
	}
	b.add(&out)
	if b.done {
		b.whole = b.keep()
	}
}

// JSON returns the Response, once the turn has ended well.
func (b *Body) JSON() []byte { return b.whole }

// ErrCancelled is the error of a response that was cancelled. It must not be changed.
var ErrCancelled = &apierror.Error{
	Status: http.StatusConflict, Type: apierror.TypeServer, Code: apierror.CodeResponseCancelled,
	Message: "The response was cancelled.",
}

// noEvents ignores all events.
type noEvents struct{}

func (noEvents) added(*outputItem)         {}
func (noEvents) delta(*outputItem, string) {}
func (noEvents) partAdded(*outputItem)     {}
func (noEvents) partDone(*outputItem)      {}
func (noEvents) ended(*outputItem)         {}
