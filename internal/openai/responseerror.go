package openai

import (
	"fmt"
	"net/http"
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

// NotCancellable is the 400 of a response that has ended.
func NotCancellable(id string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "response_not_cancellable",
		Message: fmt.Sprintf("The response %.64q has ended; only one that is in progress can be cancelled.", id),
	}
}

// FromResponseFailure is [FromFailure] for a client of the Responses API, whose
// conversation is its input.
func FromResponseFailure(err error) *Error {
	e := FromFailure(err)
	if e == nil || e.Param != tooLong.param {
		return e
	}
	renamed := *e
	renamed.Param = "input"
	return &renamed
}
