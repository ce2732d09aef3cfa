package openai

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ResponseRequest is a checked body of POST /v1/responses (CreateResponse). It
// holds views into the body it was decoded from, which must not be changed as
// long as the request is in use.
//
// A request is complete only once [ResponseRequest.Resolve] has put what it
// refers to in its place.
type ResponseRequest struct {
	conversation

	instructions jsontext.Value
	input        []inputItem
	hasInput     bool
	previous     string // previous_response_id
	store        bool
	encrypted    bool // include names the reasoning's encrypted content
	codex        bool // the client is a Codex
	summary      string
	echo         responseEcho

	hosted   *fault              // a tool that only a Codex may bring
	skipped  []string            // the paths of all such tools
	declared map[string]bool     // the names of the tools so far
	forms    map[string]toolForm // by the name of the tool in the conversation
	more     []moreTool          // tools that stand in the input
}

// DecodeResponse reads and checks the body of a request for a response. The
// error is always an invalid_request_error with status 400.
//
// Refused are, besides values of a wrong type or form, what Codex cannot do:
// hosted tools, background responses, conversations and prompts that OpenAI
// keeps, log probabilities, files, and images that are not data URLs. Fields
// without use are accepted; [Plan.Ignored] names those that matter. Unknown
// fields are skipped.
func DecodeResponse(body []byte) (*ResponseRequest, *Error) {
	root, refusal := readRoot(body)
	if refusal != nil {
		return nil, refusal
	}
	r := &ResponseRequest{store: true}
	for name, v := range root.Members() {
		read, known := responseFields[string(name)]
		if !known {
			continue
		}
		if f := read(r, v); f != nil {
			return nil, f.in(string(name)).toError()
		}
	}
	if f := r.check(); f != nil {
		return nil, f.toError()
	}
	return r, nil
}

// responseFields are the readers of the fields that are looked at.
var responseFields = map[string]func(*ResponseRequest, jsontext.Value) *fault{
	"model":                (*ResponseRequest).readModel,
	"input":                (*ResponseRequest).readInput,
	"instructions":         (*ResponseRequest).readInstructions,
	"previous_response_id": (*ResponseRequest).readPrevious,
	"store":                (*ResponseRequest).readStore,
	"stream":               (*ResponseRequest).readStream,
	"stream_options":       skipped("", "", jsontext.KindObject),
	"tools":                (*ResponseRequest).readTools,
	"tool_choice":          (*ResponseRequest).readToolChoice,
	"parallel_tool_calls":  (*ResponseRequest).readParallelToolCalls,
	"text":                 (*ResponseRequest).readText,
	"reasoning":            (*ResponseRequest).readReasoning,
	"include":              (*ResponseRequest).readInclude,
	"metadata":             (*ResponseRequest).readMetadata,
	"max_output_tokens":    (*ResponseRequest).readMaxTokens,
	"truncation":           (*ResponseRequest).readTruncation,
	"client_metadata":      (*ResponseRequest).readClientMetadata,

	"background":   (*ResponseRequest).readBackground,
	"top_logprobs": (*ResponseRequest).readTopLogprobs,
	"conversation": refused("conversations are not kept here; use 'previous_response_id'"),
	"prompt":       refused("there are no prompts here; use 'instructions' and 'input'"),
	"messages":     refused("it belongs to POST /v1/chat/completions; here it is 'input'"),

	"temperature":            echoed("temperature", "1", func(e *responseEcho) *jsontext.Value { return &e.temperature }, jsontext.KindNumber),
	"top_p":                  echoed("top_p", "1", func(e *responseEcho) *jsontext.Value { return &e.topP }, jsontext.KindNumber),
	"max_tool_calls":         echoed("", "", func(e *responseEcho) *jsontext.Value { return &e.maxToolCalls }, jsontext.KindNumber),
	"safety_identifier":      echoed("", "", func(e *responseEcho) *jsontext.Value { return &e.safetyIdentifier }, jsontext.KindString),
	"prompt_cache_key":       echoed("", "", func(e *responseEcho) *jsontext.Value { return &e.promptCacheKey }, jsontext.KindString),
	"user":                   echoed("", "", func(e *responseEcho) *jsontext.Value { return &e.user }, jsontext.KindString),
	"service_tier":           skipped("service_tier", `"auto"`, jsontext.KindString),
	"context_management":     skipped("context_management", "[]", jsontext.KindArray),
	"moderation":             skipped("moderation", "", jsontext.KindObject),
	"prompt_cache_retention": skipped("", "", jsontext.KindString),
	"prompt_cache_options":   skipped("", "", jsontext.KindObject),
}

// skipped reads a field without a counterpart in Codex, see [unused].
func skipped(name, neutral string, kinds ...jsontext.Kind) func(*ResponseRequest, jsontext.Value) *fault {
	return func(r *ResponseRequest, v jsontext.Value) *fault { return r.skip(v, name, neutral, kinds) }
}

// echoed is skipped for a field that the response repeats.
func echoed(name, neutral string, into func(*responseEcho) *jsontext.Value, kinds ...jsontext.Kind) func(*ResponseRequest, jsontext.Value) *fault {
	return func(r *ResponseRequest, v jsontext.Value) *fault {
		if v.Given() {
			*into(&r.echo) = v
		}
		return r.skip(v, name, neutral, kinds)
	}
}

// refused refuses a field for a reason.
func refused(why string) func(*ResponseRequest, jsontext.Value) *fault {
	return func(_ *ResponseRequest, v jsontext.Value) *fault {
		if !v.Given() {
			return nil
		}
		return unsupported("is not supported: %s", why)
	}
}

// check looks at what needs more than one field.
func (r *ResponseRequest) check() *fault {
	switch {
	case r.model == "":
		return missing().in("model")
	case !r.hasInput && r.previous == "":
		return missing().in("input")
	case r.hasInput && len(r.input) == 0 && r.previous == "":
		return wrongValue("must hold at least one item").in("input")
	case r.hosted != nil && !r.codex:
		return r.hosted
	}
	r.ignored = append(r.ignored, r.skipped...)
	return nil
}

func (r *ResponseRequest) readInstructions(v jsontext.Value) *fault {
	r.instructions = nil
	if !v.Given() {
		return nil
	}
	r.instructions = v
	return expect(jsontext.KindString, v)
}

func (r *ResponseRequest) readPrevious(v jsontext.Value) *fault {
	r.previous = ""
	if !v.Given() {
		return nil
	}
	if f := expectFilled(v); f != nil {
		return f
	}
	r.previous = v.Text()
	return nil
}

func (r *ResponseRequest) readStore(v jsontext.Value) *fault {
	r.store = !v.Given() || v.IsTrue()
	return optional(jsontext.KindBool, v)
}

func (r *ResponseRequest) readBackground(v jsontext.Value) *fault {
	if f := optional(jsontext.KindBool, v); f != nil {
		return f
	}
	if v.IsTrue() {
		return unsupported("is not supported: a response is made while its client waits")
	}
	return nil
}

func (r *ResponseRequest) readTopLogprobs(v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindNumber, v); f != nil {
		return f
	}
	if string(v) != "0" {
		return unsupported("is not supported: Codex gives no log probabilities")
	}
	return nil
}

// minOutputTokens is the least that OpenAI takes for max_output_tokens.
const minOutputTokens = 16

func (r *ResponseRequest) readMaxTokens(v jsontext.Value) *fault {
	r.echo.maxTokens = nil
	if f := readTokenLimit(&r.maxTokens, v); f != nil || !v.Given() {
		return f
	}
	if r.maxTokens < minOutputTokens {
		return wrongValue("must be at least %d", minOutputTokens)
	}
	r.echo.maxTokens = v
	return nil
}

func (r *ResponseRequest) readTruncation(v jsontext.Value) *fault {
	r.echo.truncation = ""
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	switch r.echo.truncation = v.Text(); r.echo.truncation {
	case "auto":
		r.ignore("truncation")
	case "disabled":
	default:
		return wrongValue("must be auto or disabled")
	}
	return nil
}

// readClientMetadata finds out whether the client is a Codex, which says so here.
func (r *ResponseRequest) readClientMetadata(v jsontext.Value) *fault {
	r.codex = false
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	for name := range v.Members() {
		r.codex = r.codex || strings.HasPrefix(string(name), "x-codex-")
	}
	return nil
}
