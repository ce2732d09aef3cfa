package responses

import (
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// APIError converts the failure of the request, see [apierror.From]. Errors about the
// conversation get the names that it has in this API.
func (r *Request) APIError(err error) *apierror.Error {
	e := apierror.WithConversation(err, "input")
	if e != nil && e.Code == apierror.CodeRefused {
		return r.refused(e)
	}
	return e
}

// refused adds the item of the input that Codex could not read. Codex counts the items
// of the history, where each message is one item and instructions are none.
func (r *Request) refused(e *apierror.Error) *apierror.Error {
	var n int
	if _, err := fmt.Sscanf(e.Message, "items[%d] is not a valid response item:", &n); err != nil {
		return e
	}
	_, history := prompt.SplitInstructions(r.Messages)
	named := *e
	named.Param = r.earlierParam()
	if i := r.inputOf(len(r.Messages) - len(history) + n); i >= 0 {
		named.Param = (&field.Error{}).At(i).In("input").Path
	}
	named.Message = named.Param + strings.TrimPrefix(e.Message, fmt.Sprintf("items[%d]", n))
	return &named
}
