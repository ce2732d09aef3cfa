package apierror

import (
	"fmt"
	"net/http"
	"time"
)

// ResponseNotFound is the 404 of a response that is not kept, or not for this user.
func ResponseNotFound(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeResponseNotFound,
		Message: fmt.Sprintf("There is no response with the id %.64q. Responses are kept when 'store' is not false, for a while, and for the user who made them.", id),
	}
}

// NoStore is the 400 of a request whose field needs the store of responses, on a server
// that has none.
func NoStore(param string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: param, Code: CodeUnsupportedParameter,
		Message: fmt.Sprintf("'%s' needs stored responses, and this server stores none: its operator has set response_store to off.", param),
	}
}

// NoEvents is the 400 of a request for the events of a response that are not kept, for
// the reason why.
func NoEvents(param, why string) *Error {
	return InvalidRequest(param, fmt.Sprintf("The events of this response are not kept here%s; leave 'stream' out to read the response itself.", why))
}

// BackgroundTimeout is the 504 of a background response that has taken too long.
func BackgroundTimeout(most time.Duration) *Error {
	return &Error{
		Status: http.StatusGatewayTimeout, Type: TypeServer, Code: CodeTimeout,
		Message: fmt.Sprintf("The response did not end within %s, which is the most for one in the background.", most),
	}
}

// ConversationNotFound is the 404 of a conversation that is not kept, or not for this user.
func ConversationNotFound(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Param: "conversation", Code: CodeConversationNotFound,
		Message: fmt.Sprintf("There is no conversation with the id %.64q. Conversations are kept for a while, unless response_store is off, and for the user who made them.", id),
	}
}

// ConversationItemNotFound is the 404 of an item that a conversation does not have.
func ConversationItemNotFound(id, item string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeNotFound,
		Message: fmt.Sprintf("There is no item with the id %.128q in the conversation %.64q.", item, id),
	}
}

// ConversationTooLong is the 400 of a conversation that is too large to be kept or used.
func ConversationTooLong() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Param: "conversation", Code: tooLong.code,
		Message: "The conversation is too large.",
	}
}

// InConversation is the 400 of a request that follows a response of a conversation, which
// has what precedes it.
func InConversation(id string) *Error {
	return InvalidRequest("previous_response_id", fmt.Sprintf("The response %.64q belongs to a conversation; continue it with 'conversation'.", id))
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

// CancelPending is the 503 of a response that another node makes, which has not ended yet
// since it was asked to.
func CancelPending(id string) *Error {
	return errorClass{
		status: http.StatusServiceUnavailable, kind: TypeServer, code: CodeStoreUnavailable, retry: soon,
	}.error(fmt.Sprintf("The response %.64q is made by another server, which was asked to cancel it but has not done so yet. Please read the response later.", id))
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
