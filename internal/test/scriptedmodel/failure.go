package scriptedmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer without a stream.
type refusal struct {
	status int
	header map[string]string
	body   object
}

// refuser is an [End] that refuses the request.
type refuser interface {
	refuse(now time.Time) refusal
}

// write writes the answer over HTTP.
func (r refusal) write(w http.ResponseWriter) {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	writeJSON(w, r.status, r.body)
}

// message returns the answer over a WebSocket: the status, the header and the body's members.
func (r refusal) message() ([]byte, error) {
	members := r.body.with(object{"type": "error", "status": r.status})
	if len(r.header) > 0 {
		members["headers"] = r.header
	}
	return json.Marshal(members)
}

func (e HTTPError) refuse(time.Time) refusal {
	r := refusal{status: e.Status, header: map[string]string{}}
	if e.RetryAfter > 0 {
		r.header["Retry-After"] = strconv.FormatInt(int64(e.RetryAfter/time.Second), 10)
	}
	r.body = object{"error": object{
		"message": cmp.Or(e.Message, fmt.Sprintf("scripted %d", e.Status)), "type": errorType(e.Status), "param": nil,
		"code": cmp.Or(e.Code, errorCodes[e.Status], "invalid_request"),
	}}
	return r
}

func (e UsageLimit) refuse(now time.Time) refusal {
	failure := object{"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": cmp.Or(e.Plan, "plus")}
	r := refusal{status: http.StatusTooManyRequests, body: object{"error": failure}}
	if e.ResetsIn > 0 {
		reset := now.Add(e.ResetsIn)
		failure["resets_at"], failure["resets_in_seconds"] = reset.Unix(), int64(e.ResetsIn/time.Second)
		r.header = map[string]string{
			"x-codex-primary-used-percent":     "100",
			"x-codex-primary-window-minutes":   "300",
			"x-codex-primary-reset-at":         strconv.FormatInt(reset.Unix(), 10),
			"x-codex-secondary-used-percent":   "42",
			"x-codex-secondary-window-minutes": "10080",
			"x-codex-secondary-reset-at":       strconv.FormatInt(reset.Add(24*time.Hour).Unix(), 10),
		}
	}
	if e.Header != nil {
		r.header = e.Header
	}
	return r
}

func (ForeignInstructions) refuse(time.Time) refusal {
	return refusal{status: http.StatusBadRequest, body: object{"detail": "Instructions are not valid"}}
}

func (e UnknownModel) refuse(time.Time) refusal {
	detail := fmt.Sprintf("The '%s' model is not supported when using Codex with a ChatGPT account.", e.Model)
	return refusal{status: http.StatusBadRequest, body: object{"detail": detail}}
}

func badRequest(message string) HTTPError {
	return HTTPError{Status: http.StatusBadRequest, Message: message}
}

// notFound refuses a request that continues an unknown response.
func notFound(id string) HTTPError {
	return HTTPError{
		Status: http.StatusBadRequest, Code: "previous_response_not_found",
		Message: fmt.Sprintf("Previous response with id '%s' not found.", id),
	}
}

// errorCodes are the default codes for statuses.
var errorCodes = map[int]string{
	http.StatusUnauthorized:        "invalid_api_key",
	http.StatusForbidden:           "permission_denied",
	http.StatusNotFound:            "model_not_found",
	http.StatusTooManyRequests:     "rate_limit_exceeded",
	http.StatusInternalServerError: "server_error",
	http.StatusServiceUnavailable:  "service_unavailable",
}

func errorType(status int) string {
	switch {
	case status >= http.StatusInternalServerError:
		return "server_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	return "invalid_request_error"
}

// failureMessages are the API's messages for codes of response.failed. Codex parses the
// delay in the first one and replaces most of the others.
var failureMessages = map[string]string{
	"rate_limit_exceeded":     "Rate limit reached. Please try again in 11ms.",
	"insufficient_quota":      "The quota is used up. See the plan and its billing.",
	"context_length_exceeded": "The input is longer than the context window of the model.",
	"server_error":            "The server could not answer the request.",
}
