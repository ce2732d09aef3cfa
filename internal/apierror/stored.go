package apierror

import (
	"fmt"
	"net/http"
)

// ResponseNotFound is the 404 of a response that is not kept, or not for this user.
func ResponseNotFound(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeResponseNotFound,
		Message: fmt.Sprintf("There is no response with the id %.64q. Responses are kept when 'store' is not false, for a while, and for the user who made them.", id),
	}
}

// PreviousNotFound is the 400 of a request that follows the response id, where missing
// is not kept: id itself or a response before it.
func PreviousNotFound(id, missing string) *Error {
	message := fmt.Sprintf("There is no response with the id %.64q to follow.", id)
	if missing != id {
		message = fmt.Sprintf("The response %.64q cannot be followed: %.64q, before it, is not kept any more.", id, missing)
	}
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest,
		Param: "previous_response_id", Code: CodePreviousNotFound, Message: message,
	}
}

// PreviousTooLong is the 400 of a request that follows too many responses, or too large
// ones.
func PreviousTooLong() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest,
		Param: "previous_response_id", Code: tooLong.code,
		Message: "The responses before this one are too many, or too large, to be followed.",
	}
}

// ReferencesTooLong is the 400 of a request whose input refers to items that are too
// large.
func ReferencesTooLong() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: "input", Code: tooLong.code,
		Message: "The items that the input refers to, and the responses before, are too large together.",
	}
}

// NotCancellable is the 400 of a response that has ended.
func NotCancellable(id string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeResponseNotCancellable,
		Message: fmt.Sprintf("The response %.64q has ended; only one that is in progress can be cancelled.", id),
	}
}

// StoreUnavailable is the 503 of a request that needs the store of responses while that
// fails.
func StoreUnavailable() *Error {
	return errorClass{
		status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeStoreUnavailable, retry: soon,
	}.error("The responses that are kept cannot be reached. Please try again later.")
}
