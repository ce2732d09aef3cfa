package apierror

import "slices"

// Code is the code of an [Error]. Clients tell failures apart by it.
type Code string

// The codes of this server. A 400 of the model's provider may have others.
const (
	CodeAnswerTooLarge         Code = "answer_too_large"
	CodeClientClosed           Code = "client_closed_request"
	CodeAnswerMemory           Code = "codex_answer_memory"
	CodeAPIKeyExpired          Code = "api_key_expired"
	CodeBodyMemory             Code = "codex_body_memory"
	CodeCodexError             Code = "codex_error"
	CodeExited                 Code = "codex_exited"
	CodeForbidden              Code = "codex_forbidden"
	CodeIdleTimeout            Code = "codex_idle_timeout"
	CodeInterrupted            Code = "codex_interrupted"
	CodeMisconfigured          Code = "codex_misconfigured"
	CodeNotReady               Code = "codex_not_ready"
	CodeOverloaded             Code = "codex_overloaded"
	CodeQueueFull              Code = "codex_queue_full"
	CodeQueueTimeout           Code = "codex_queue_timeout"
	CodeRefused                Code = "codex_refused"
	CodeTimeout                Code = "codex_timeout"
	CodeTooSlow                Code = "codex_too_slow"
	CodeUnauthorized           Code = "codex_unauthorized"
	CodeUnresponsive           Code = "codex_unresponsive"
	CodeConversationNotFound   Code = "conversation_not_found"
	CodeContentPolicy          Code = "content_policy_violation"
	CodeContextLength          Code = "context_length_exceeded"
	CodeHostNotAllowed         Code = "host_not_allowed"
	CodeInsufficientQuota      Code = "insufficient_quota"
	CodeInternal               Code = "internal_error"
	CodeInvalidAPIKey          Code = "invalid_api_key"
	CodeInvalidImageURL        Code = "invalid_image_url"
	CodeInvalidJSON            Code = "invalid_json"
	CodeInvalidType            Code = "invalid_type"
	CodeInvalidValue           Code = "invalid_value"
	CodeMethodNotAllowed       Code = "method_not_allowed"
	CodeMissingParameter       Code = "missing_required_parameter"
	CodeModelNotFound          Code = "model_not_found"
	CodeNotFound               Code = "not_found"
	CodeOriginNotAllowed       Code = "origin_not_allowed"
	CodePreviousNotFound       Code = "previous_response_not_found"
	CodeRateLimit              Code = "rate_limit_exceeded"
	CodeRequestTimeout         Code = "request_timeout"
	CodeRequestTooLarge        Code = "request_too_large"
	CodeResponseCancelled      Code = "response_cancelled"
	CodeResponseNotCancellable Code = "response_not_cancellable"
	CodeResponseNotFound       Code = "response_not_found"
	CodeStoreUnavailable       Code = "response_store_unavailable"
	CodeServerOverloaded       Code = "server_overloaded"
	CodeShuttingDown           Code = "server_shutting_down"
	CodeSocketTooOld           Code = "websocket_connection_limit_reached"
	CodeUnknownURL             Code = "unknown_url"
	CodeUnsupportedEncoding    Code = "unsupported_content_encoding"
	CodeUnsupportedParameter   Code = "unsupported_parameter"
	CodeUpstreamDisconnected   Code = "upstream_disconnected"
	CodeUpstreamError          Code = "upstream_error"
)

// codes lists the codes of this server, for metrics.
var codes = []Code{
	CodeAnswerTooLarge,
	CodeClientClosed,
	CodeAnswerMemory,
	CodeAPIKeyExpired,
	CodeBodyMemory,
	CodeCodexError,
	CodeExited,
	CodeForbidden,
	CodeIdleTimeout,
	CodeInterrupted,
	CodeMisconfigured,
	CodeNotReady,
	CodeOverloaded,
	CodeQueueFull,
	CodeQueueTimeout,
	CodeRefused,
	CodeTimeout,
	CodeTooSlow,
	CodeUnauthorized,
	CodeUnresponsive,
	CodeConversationNotFound,
	CodeContentPolicy,
	CodeContextLength,
	CodeHostNotAllowed,
	CodeInsufficientQuota,
	CodeInternal,
	CodeInvalidAPIKey,
	CodeInvalidImageURL,
	CodeInvalidJSON,
	CodeInvalidType,
	CodeInvalidValue,
	CodeMethodNotAllowed,
	CodeMissingParameter,
	CodeModelNotFound,
	CodeNotFound,
	CodeOriginNotAllowed,
	CodePreviousNotFound,
	CodeRateLimit,
	CodeRequestTimeout,
	CodeRequestTooLarge,
	CodeResponseCancelled,
	CodeResponseNotCancellable,
	CodeResponseNotFound,
	CodeStoreUnavailable,
	CodeServerOverloaded,
	CodeShuttingDown,
	CodeSocketTooOld,
	CodeUnknownURL,
	CodeUnsupportedEncoding,
	CodeUnsupportedParameter,
	CodeUpstreamDisconnected,
	CodeUpstreamError,
}

// The labels of codes that are not in the list.
const (
	LabelInvalid = "invalid_request" // a request that is wrong, without a code
	LabelOther   = "other"           // a code of the provider's
)

// Labels returns all values of [Code.Label].
func Labels() []string {
	all := []string{LabelInvalid, LabelOther}
	for _, c := range codes {
		all = append(all, string(c))
	}
	return all
}

// Label returns the code if it is one of this server's, or else LabelInvalid or
// LabelOther. Metrics need a bounded number of values.
func (c Code) Label() string {
	switch {
	case slices.Contains(codes, c):
		return string(c)
	case c == "":
		return LabelInvalid
	}
	return LabelOther
}
