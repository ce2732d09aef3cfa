package openai

import (
	"fmt"
	"strings"
)

// Refusal is [FromFailure] for the client of this request, whose conversation is
// its input.
func (r *ResponseRequest) Refusal(err error) *Error {
	e := FromFailure(err)
	switch {
	case e == nil:
		return nil
	case e.Param == tooLong.param:
		renamed := *e
		renamed.Param = "input"
		return &renamed
	case e.Code == CodeRefused:
		return r.refused(e)
	}
	return e
}

// refused names the item of the input that Codex could not read. Codex counts in
// the history, where each message is one item and the instructions are none.
func (r *ResponseRequest) refused(e *Error) *Error {
	var n int
	if _, err := fmt.Sscanf(e.Message, "items[%d] is not a valid response item:", &n); err != nil {
		return e
	}
	_, history := splitInstructions(r.messages)
	named := *e
	named.Param = "previous_response_id"
	if i := r.inputOf(len(r.messages) - len(history) + n); i >= 0 {
		named.Param = (&fault{}).at(i).in("input").path
	}
	named.Message = named.Param + strings.TrimPrefix(e.Message, fmt.Sprintf("items[%d]", n))
	return &named
}
