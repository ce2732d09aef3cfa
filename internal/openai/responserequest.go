package openai

import "strings"

// ResponseRequest is a checked body of POST /v1/responses (CreateResponse). It
// holds views into the body it was decoded from, which must not be changed as
// long as the request is in use.
//
// A request is complete only once [ResponseRequest.Resolve] has put what it
// refers to in its place.
type ResponseRequest struct {
	conversation

	instructions value
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
	for name, v := range root.members() {
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
var responseFields = map[string]func(*ResponseRequest, value) *fault{
	"model":                (*ResponseRequest).readModel,
	"input":                (*ResponseRequest).readInput,
	"instructions":         (*ResponseRequest).readInstructions,
	"previous_response_id": (*ResponseRequest).readPrevious,
	"store":                (*ResponseRequest).readStore,
	"stream":               (*ResponseRequest).readStream,
	"stream_options":       skipped("", "", kindObject),
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

	"temperature":            echoed("temperature", "1", func(e *responseEcho) *value { return &e.temperature }, kindNumber),
	"top_p":                  echoed("top_p", "1", func(e *responseEcho) *value { return &e.topP }, kindNumber),
	"max_tool_calls":         echoed("", "", func(e *responseEcho) *value { return &e.maxToolCalls }, kindNumber),
	"safety_identifier":      echoed("", "", func(e *responseEcho) *value { return &e.safetyIdentifier }, kindString),
	"prompt_cache_key":       echoed("", "", func(e *responseEcho) *value { return &e.promptCacheKey }, kindString),
	"user":                   echoed("", "", func(e *responseEcho) *value { return &e.user }, kindString),
	"service_tier":           skipped("service_tier", `"auto"`, kindString),
	"context_management":     skipped("context_management", "[]", kindArray),
	"moderation":             skipped("moderation", "", kindObject),
	"prompt_cache_retention": skipped("", "", kindString),
	"prompt_cache_options":   skipped("", "", kindObject),
}

// skipped reads a field without a counterpart in Codex, see [unused].
func skipped(name, neutral string, kinds ...kind) func(*ResponseRequest, value) *fault {
	return func(r *ResponseRequest, v value) *fault { return r.skip(v, name, neutral, kinds) }
}

// echoed is skipped for a field that the response repeats.
func echoed(name, neutral string, into func(*responseEcho) *value, kinds ...kind) func(*ResponseRequest, value) *fault {
	return func(r *ResponseRequest, v value) *fault {
		if v.given() {
			*into(&r.echo) = v
		}
		return r.skip(v, name, neutral, kinds)
	}
}

// refused refuses a field for a reason.
func refused(why string) func(*ResponseRequest, value) *fault {
	return func(_ *ResponseRequest, v value) *fault {
		if !v.given() {
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

func (r *ResponseRequest) readInstructions(v value) *fault {
	r.instructions = nil
	if !v.given() {
		return nil
	}
	r.instructions = v
	return expect(kindString, v)
}

func (r *ResponseRequest) readPrevious(v value) *fault {
	r.previous = ""
	if !v.given() {
		return nil
	}
	if f := expectFilled(v); f != nil {
		return f
	}
	r.previous = v.text()
	return nil
}

func (r *ResponseRequest) readStore(v value) *fault {
	r.store = !v.given() || v.isTrue()
	return optional(kindBool, v)
}

func (r *ResponseRequest) readBackground(v value) *fault {
	if f := optional(kindBool, v); f != nil {
		return f
	}
	if v.isTrue() {
		return unsupported("is not supported: a response is made while its client waits")
	}
	return nil
}

func (r *ResponseRequest) readTopLogprobs(v value) *fault {
	if !v.given() {
		return nil
	}
	if f := expect(kindNumber, v); f != nil {
		return f
	}
	if string(v) != "0" {
		return unsupported("is not supported: Codex gives no log probabilities")
	}
	return nil
}

// minOutputTokens is the least that OpenAI takes for max_output_tokens.
const minOutputTokens = 16

func (r *ResponseRequest) readMaxTokens(v value) *fault {
	r.echo.maxTokens = nil
	if f := readTokenLimit(&r.maxTokens, v); f != nil || !v.given() {
		return f
	}
	if r.maxTokens < minOutputTokens {
		return wrongValue("must be at least %d", minOutputTokens)
	}
	r.echo.maxTokens = v
	return nil
}

func (r *ResponseRequest) readTruncation(v value) *fault {
	r.echo.truncation = ""
	if !v.given() {
		return nil
	}
	if f := expect(kindString, v); f != nil {
		return f
	}
	switch r.echo.truncation = v.text(); r.echo.truncation {
	case "auto":
		r.ignore("truncation")
	case "disabled":
	default:
		return wrongValue("must be auto or disabled")
	}
	return nil
}

// readClientMetadata finds out whether the client is a Codex, which says so here.
func (r *ResponseRequest) readClientMetadata(v value) *fault {
	r.codex = false
	if !v.given() {
		return nil
	}
	if f := expect(kindObject, v); f != nil {
		return f
	}
	for name := range v.members() {
		r.codex = r.codex || strings.HasPrefix(string(name), "x-codex-")
	}
	return nil
}
