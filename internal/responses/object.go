package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// The values of a Response's status, and, but for failed and cancelled, of an
// item's.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// response is a Response object while it is made. Whoever shows it, as events or
// as one body, shows this one.
type response struct {
	meta       Meta
	suffix     string
	status     string
	completed  int64           // Unix time in seconds; 0: not complete
	incomplete string          // the reason, if it is incomplete
	err        *apierror.Error // why it failed, or was cancelled
	usage      codexrpc.Usage  // 0 until it ends well: OpenAI's description has no null here
	items      []outputItem    // in their order
	shown      int             // how many of them the client sees
}

// outputItem is one item of a response's output.
type outputItem struct {
	kind   string // its type
	id     string
	source string // the provider's id of a reasoning
	index  int    // among those that the client sees; -1: it sees nothing of it
	status string

	// from and to are its place in what was last appended with the Response, in
	// bytes.
	from, to int

	text      []byte   // of a message
	phase     string   // of a message that has ended, if the model named one
	parts     [][]byte // of a reasoning's summary
	part      int      // the part under way, as Codex counts
	encrypted string   // the content of a reasoning

	callID    string
	form      toolForm
	arguments []byte
}

func newResponse(meta Meta) *response {
	return &response{
		meta:   meta,
		suffix: strings.TrimPrefix(meta.ID, responseid.Prefix),
		status: statusInProgress,
	}
}

// append appends the object as it is now (Response).
func (r *response) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, r.meta.ID)
	dst = append(dst, `,"object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, r.meta.Created, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.status...)
	dst = append(dst, `","completed_at":`...)
	if r.completed != 0 {
		dst = strconv.AppendInt(dst, r.completed, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	dst = r.appendError(dst)
	dst = append(dst, `,"incomplete_details":`...)
	if r.incomplete != "" {
		dst = append(dst, `{"reason":"`...)
		dst = append(dst, r.incomplete...)
		dst = append(dst, `"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"output":[`...)
	for i := range r.items {
		if r.items[i].index > 0 {
			dst = append(dst, ',')
		}
		if r.items[i].index >= 0 {
			r.items[i].from = len(dst) - start
			dst = r.items[i].append(dst, r.meta.encrypted)
			r.items[i].to = len(dst) - start
		}
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, r.usage)
	dst = append(dst, r.meta.echo...)
	return append(dst, '}')
}

// size is about how long the object is.
func (r *response) size() int {
	size := 512 + len(r.meta.echo)
	for i := range r.items {
		size += 256 + len(r.items[i].text) + len(r.items[i].arguments) + len(r.items[i].encrypted)
		for _, part := range r.items[i].parts {
			size += 64 + len(part)
		}
	}
	return size + size/8
}

// append appends the item as it is now.
func (i *outputItem) append(dst []byte, encrypted bool) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, i.id)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, i.kind...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, i.status...)
	dst = append(dst, '"')
	switch i.kind {
	case itemMessageType:
		if i.phase != "" {
			dst = append(dst, `,"phase":"`...)
			dst = append(dst, i.phase...)
			dst = append(dst, '"')
		}
		dst = append(dst, `,"role":"assistant","content":[`...)
		if i.status != statusInProgress {
			dst = appendTextPart(dst, i.text)
		}
		dst = append(dst, ']')
	case itemReasoningType:
		dst = i.appendReasoning(dst, encrypted)
	default:
		dst = i.appendCall(dst)
	}
	return append(dst, '}')
}

// appendTextPart appends the content part of a message (OutputTextContent).
func appendTextPart(dst, text []byte) []byte {
	dst = append(dst, `{"type":"output_text","text":`...)
	dst = jsontext.AppendString(dst, text)
	return append(dst, `,"annotations":[],"logprobs":[]}`...)
}

func (i *outputItem) appendReasoning(dst []byte, encrypted bool) []byte {
	dst = append(dst, `,"summary":[`...)
	for k, part := range i.parts {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = appendSummaryPart(dst, part)
	}
	dst = append(dst, ']')
	if encrypted && i.status != statusInProgress {
		dst = append(dst, `,"encrypted_content":`...)
		dst = jsontext.AppendStringOrNull(dst, i.encrypted)
	}
	return dst
}

// appendSummaryPart appends a part of a reasoning's summary.
func appendSummaryPart(dst, text []byte) []byte {
	dst = append(dst, `{"type":"summary_text","text":`...)
	dst = jsontext.AppendString(dst, text)
	return append(dst, '}')
}

func (i *outputItem) appendCall(dst []byte) []byte {
	dst = append(dst, `,"call_id":`...)
	dst = jsontext.AppendString(dst, i.callID)
	if i.kind == itemSearch {
		dst = append(dst, `,"execution":"client","arguments":`...)
		return i.appendSearch(dst)
	}
	if i.form.namespace != "" {
		dst = append(dst, `,"namespace":`...)
		dst = jsontext.AppendString(dst, i.form.namespace)
	}
	dst = append(dst, `,"name":`...)
	dst = jsontext.AppendString(dst, i.form.name)
	done := i.status != statusInProgress
	if i.kind == itemCustom {
		dst = append(dst, `,"input":`...)
		if !done {
			return append(dst, `""`...)
		}
		return jsontext.AppendString(dst, customInput(i.arguments))
	}
	dst = append(dst, `,"arguments":`...)
	if !done {
		return append(dst, `""`...)
	}
	return jsontext.AppendString(dst, i.arguments)
}

// appendSearch appends the arguments of a search for tools, which are an object.
func (i *outputItem) appendSearch(dst []byte) []byte {
	if i.status == statusInProgress || !json.Valid(i.arguments) {
		return append(dst, "{}"...)
	}
	return append(dst, jsontext.Value(i.arguments).Compact()...)
}

// appendError appends the error (ResponseError), or null.
func (r *response) appendError(dst []byte) []byte {
	if r.err == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"code":"`...)
	dst = append(dst, responseCode(r.err)...)
	dst = append(dst, `","message":`...)
	dst = jsontext.AppendString(dst, r.err.Message)
	return append(dst, '}')
}

// responseCode is the code of an error in a Response, which knows few
// (ResponseErrorCode).
func responseCode(e *apierror.Error) string {
	switch e.Type {
	case apierror.TypeRateLimit, apierror.TypeQuota:
		return "rate_limit_exceeded"
	case apierror.TypeInvalidRequest:
		return "invalid_prompt"
	}
	return "server_error"
}

// appendUsage appends a ResponseUsage. Codex does not tell how much was
// written to the provider's cache.
func appendUsage(dst []byte, u codexrpc.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.InputTokens, 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CachedInputTokens, 10)
	dst = append(dst, `,"cache_write_tokens":0},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.OutputTokens, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.ReasoningOutputTokens, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalTokens, 10)
	return append(dst, '}')
}
