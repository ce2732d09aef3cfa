package codexrpc

import (
	"fmt"
	"time"

	"github.com/tidwall/gjson"
)

// TurnError is the app-server's reason for the failure of a turn (TurnError).
type TurnError struct {
	// Message is Codex's own text.
	Message string
	// Code is the name of the codexErrorInfo variant, for example
	// "contextWindowExceeded", "httpConnectionFailed" or "other".
	Code string
	// HTTPStatus is the upstream's status where the variant carries one, else 0.
	HTTPStatus int
	// Details is additionalDetails, often empty.
	Details string
	// ResetsAt is when the spent plan resets by which the turn failed (Code is
	// "usageLimitExceeded"); zero: not known. [Thread.ExplainLimit] sets it.
	ResetsAt time.Time
}

// Error gives Codex's message with its code.
func (e *TurnError) Error() string {
	return fmt.Sprintf("codex: %s (%s)", e.Message, e.Code)
}

// parseTurnError reads a TurnError object. codexErrorInfo is either a bare
// string or an object with one key, the variant, whose value may hold
// httpStatusCode.
func parseTurnError(v gjson.Result) *TurnError {
	if !v.IsObject() {
		return nil
	}
	e := &TurnError{
		Message: v.Get("message").String(),
		Details: v.Get("additionalDetails").String(),
		Code:    "other",
	}
	info := v.Get("codexErrorInfo")
	switch {
	case info.Type == gjson.String:
		e.Code = info.String()
	case info.IsObject():
		info.ForEach(func(variant, body gjson.Result) bool {
			e.Code = variant.String()
			e.HTTPStatus = int(body.Get("httpStatusCode").Int())
			return false
		})
	}
	return e
}
