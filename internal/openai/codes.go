package openai

// codes are all that an [Error] of this server may have as its code, beside
// those that a model's provider makes up.
var codes = map[string]bool{
	"answer_too_large":            true,
	"client_closed_request":       true,
	"codex_answer_memory":         true,
	"codex_body_memory":           true,
	"codex_error":                 true,
	"codex_exited":                true,
	"codex_forbidden":             true,
	"codex_idle_timeout":          true,
	"codex_interrupted":           true,
	"codex_misconfigured":         true,
	"codex_not_ready":             true,
	"codex_overloaded":            true,
	"codex_queue_full":            true,
	"codex_queue_timeout":         true,
	"codex_refused":               true,
	"codex_timeout":               true,
	"codex_too_slow":              true,
	"codex_unauthorized":          true,
	"codex_unresponsive":          true,
	"content_policy_violation":    true,
	"context_length_exceeded":     true,
	"host_not_allowed":            true,
	"hosted_tool":                 true,
	"insufficient_quota":          true,
	"internal_error":              true,
	"invalid_api_key":             true,
	"invalid_image_url":           true,
	"invalid_json":                true,
	"invalid_type":                true,
	"invalid_value":               true,
	"method_not_allowed":          true,
	"missing_required_parameter":  true,
	"model_not_found":             true,
	"not_found":                   true,
	"origin_not_allowed":          true,
	"previous_response_not_found": true,
	"rate_limit_exceeded":         true,
	"request_timeout":             true,
	"request_too_large":           true,
	"response_cancelled":          true,
	"response_not_cancellable":    true,
	"response_not_found":          true,
	"response_store_unavailable":  true,
	"server_overloaded":           true,
	"server_shutting_down":        true,
	"unknown_url":                 true,
	"unsupported_parameter":       true,
	"upstream_disconnected":       true,
	"upstream_error":              true,
}

// The labels of errors whose code is none of ours.
const (
	LabelInvalid = "invalid_request" // a request that is wrong, without a code
	LabelOther   = "other"           // a code of the provider's
)

// Label is the error's code if it is one of this server's, else one of few
// words for all others: a value of bounded number for metrics.
func (e *Error) Label() string {
	switch {
	case codes[e.Code]:
		return e.Code
	case e.Code == "":
		return LabelInvalid
	}
	return LabelOther
}
