package scriptedmodel

import (
	"cmp"
	"encoding/json"
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

// refusal is an answer without a stream.
type refusal struct {
	status int
	header map[string]string
	body   any // a JSON object
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

// message returns the answer over a WebSocket: an object with the status, the
// header and the members of the body.
func (r refusal) message() ([]byte, error) {
	members := map[string]any{}
	body, err := json.Marshal(r.body)
	if err == nil {
		err = json.Unmarshal(body, &members)
	}
	if err != nil {
		return nil, err
	}
	members["type"], members["status"] = "error", r.status
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
	var body errorBody
	body.Error.Message = cmp.Or(e.Message, fmt.Sprintf("scripted %d", e.Status))
	body.Error.Type = errorType(e.Status)
	body.Error.Code = cmp.Or(e.Code, errorCode(e.Status))
	r.body = body
	return r
}

// usageLimitBody is the body of the answer when the plan is used up.
type usageLimitBody struct {
	Error struct {
		Type     string `json:"type"`
		Message  string `json:"message"`
		PlanType string `json:"plan_type"`
		ResetsAt int64  `json:"resets_at,omitempty"` // Unix seconds
	} `json:"error"`
}

func (e UsageLimit) refuse(now time.Time) refusal {
	var body usageLimitBody
	body.Error.Type = "usage_limit_reached"
	body.Error.Message = "The usage limit has been reached"
	body.Error.PlanType = cmp.Or(e.Plan, "plus")
	r := refusal{status: http.StatusTooManyRequests}
	if e.ResetsIn > 0 {
		reset := now.Add(e.ResetsIn)
		body.Error.ResetsAt = reset.Unix()
		r.header = map[string]string{
			"x-codex-primary-used-percent":     "100",
			"x-codex-primary-window-minutes":   "300",
			"x-codex-primary-reset-at":         strconv.FormatInt(reset.Unix(), 10),
			"x-codex-secondary-used-percent":   "42",
			"x-codex-secondary-window-minutes": "10080",
			"x-codex-secondary-reset-at":       strconv.FormatInt(reset.Add(24*time.Hour).Unix(), 10),
		}
	}
	r.body = body
	return r
}

func (ForeignInstructions) refuse(time.Time) refusal {
	return refusal{status: http.StatusBadRequest, body: struct {
		Detail string `json:"detail"`
	}{"Instructions are not valid"}}
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

// errorCode returns the default code for a status.
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

// failureMessage returns the API's message for a code of response.failed. Codex
// parses the delay in the first one and replaces most of the others.
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
