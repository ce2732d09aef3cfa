package openai

import (
	"fmt"
	"net/http"
	"strings"
)

// ResponseNotFound is the 404 of a response that is not kept here, or not for
// this user.
func ResponseNotFound(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalidRequest, Code: "response_not_found",
		Message: fmt.Sprintf("There is no response with the id %.64q. Responses are kept when 'store' is not false, for a while, and for the user who made them.", id),
	}
}

// PreviousNotFound is the 400 of a request that follows a response which is not
// kept here. missing is the one that is not there: id itself, or one before it.
func PreviousNotFound(id, missing string) *Error {
	message := fmt.Sprintf("There is no response with the id %.64q to follow.", id)
	if missing != id {
		message = fmt.Sprintf("The response %.64q cannot be followed: %.64q, before it, is not kept any more.", id, missing)
	}
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest,
		Param: "previous_response_id", Code: "previous_response_not_found", Message: message,
	}
}

// PreviousTooLong is the 400 of a request that follows more than can be read.
func PreviousTooLong() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest,
		Param: "previous_response_id", Code: tooLong.code,
		Message: "The responses before this one are too many, or too large, to be followed.",
	}
}

// ReferencesTooLong is the 400 of a request that refers to more than can be read.
func ReferencesTooLong() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Param: "input", Code: tooLong.code,
		Message: "The items that the input refers to, and the responses before, are too large together.",
	}
}

// NotCancellable is the 400 of a response that has ended.
func NotCancellable(id string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "response_not_cancellable",
		Message: fmt.Sprintf("The response %.64q has ended; only one that is in progress can be cancelled.", id),
	}
}

// StoreUnavailable is the 503 of a request that needs the store of responses,
// which does not work.
func StoreUnavailable() *Error {
	return verdict{
		status: http.StatusServiceUnavailable, kind: typeServer, code: "response_store_unavailable", retry: soon,
	}.error("The responses that are kept cannot be reached. Please try again later.")
}

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
	case e.Code == codeRefused:
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
