package scriptedmodel

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// errorBody is the body of every refusal.
type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

// write answers with the error.
func (e HTTPError) write(w http.ResponseWriter) {
	if e.Code == "" {
		e.Code = errorCode(e.Status)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("scripted %d", e.Status)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(e.RetryAfter/time.Second), 10))
	}
	var body errorBody
	body.Error.Message = e.Message
	body.Error.Type = errorType(e.Status)
	body.Error.Code = e.Code
	writeJSON(w, e.Status, body)
}

// usageLimitBody is the body of a refusal because the plan is spent.
type usageLimitBody struct {
	Error struct {
		Type     string `json:"type"`
		Message  string `json:"message"`
		PlanType string `json:"plan_type"`
		ResetsAt int64  `json:"resets_at,omitempty"` // seconds of the epoch
	} `json:"error"`
}

// write answers that the plan is spent.
func (e UsageLimit) write(w http.ResponseWriter, now time.Time) {
	var body usageLimitBody
	body.Error.Type = "usage_limit_reached"
	body.Error.Message = "The usage limit has been reached"
	body.Error.PlanType = cmp.Or(e.Plan, "plus")
	if e.ResetsIn > 0 {
		body.Error.ResetsAt = now.Add(e.ResetsIn).Unix()
		w.Header().Set("x-codex-primary-used-percent", "100")
		w.Header().Set("x-codex-primary-window-minutes", "300")
		w.Header().Set("x-codex-primary-reset-at", strconv.FormatInt(body.Error.ResetsAt, 10))
		w.Header().Set("x-codex-secondary-used-percent", "42")
		w.Header().Set("x-codex-secondary-window-minutes", "10080")
		w.Header().Set("x-codex-secondary-reset-at", strconv.FormatInt(now.Add(e.ResetsIn+24*time.Hour).Unix(), 10))
	}
	writeJSON(w, http.StatusTooManyRequests, body)
}

// write answers that the instructions are not Codex's own.
func (ForeignInstructions) write(w http.ResponseWriter) {
	writeJSON(w, http.StatusBadRequest, struct {
		Detail string `json:"detail"`
	}{"Instructions are not valid"})
}

func badRequest(message string) HTTPError {
	return HTTPError{Status: http.StatusBadRequest, Message: message}
}

// errorCode is the code that goes with a status.
func errorCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_api_key"
	case http.StatusForbidden:
		return "permission_denied"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusInternalServerError:
		return "server_error"
	case http.StatusServiceUnavailable:
		return "service_unavailable"
	}
	return "invalid_request"
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

// failureMessage is what the API says with a code of response.failed. Codex
// reads the delay in the first, and replaces most of the others by its own words.
func failureMessage(code string) string {
	switch code {
	case "rate_limit_exceeded":
		return "Rate limit reached. Please try again in 11ms."
	case "insufficient_quota":
		return "The quota is used up. See the plan and its billing."
	case "context_length_exceeded":
		return "The input is longer than the context window of the model."
	case "server_error":
		return "The server could not answer the request."
	}
	return "scripted " + code
}
