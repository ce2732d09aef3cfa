// Package responses is the wire format of the Responses API.
//
// [Decode] checks the body of a request, [Request.Resolve] adds the stored items that the request
// refers to, and [Request.Plan] maps the request to Codex. An [Encoder] encodes the outputs of a turn
// as a Response, both as events and as one object, so both have the same content.
package responses

import (
	"cmp"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Request is the checked body of POST /v1/responses (CreateResponse). [Request.Resolve] has to be
// called before [Request.Plan].
type Request struct {
	prompt.Conversation

	PreviousID     string // the id of the response that the new response follows; empty: it follows none
	ConversationID string // the id of the conversation to which the response belongs; empty: there is none
	Store          bool   // the response is to be stored
	Background     bool   // the response is made even if its client disconnects
	Warmup         bool   // the client wants no output

	Suffix string // a part of the ids of the response and its items

	instructions wirejson.Value
	input        []inputItem
	hasInput     bool
	openCalls    []inputItem      // the calls without an output, if the answer is a summary
	compact      bool             // the request came to POST /v1/responses/compact
	Encrypted    bool             // include asks for the reasoning's encrypted content
	isCodex      bool             // the client is Codex itself
	echoed       responseSettings // what the Response repeats of the request

	skippedToolError *field.Error            // the error for the first of skippedTools, which check returns unless isCodex is true; nil: there are none
	searchTool       wirejson.Value          // the tool for web searches; nil: there is none
	skippedTools     []string                // the paths of the declared tools that cannot run here
	originalTools    map[string]originalTool // the tools as the client declared them, by the names of their functions
	inputTools       []declaredTool          // the tools that items of the input declare
}

// Decode reads and checks a body, see [prompt]. The caller fetches [prompt.Conversation.RemoteImages].
func Decode(body []byte) (*Request, *apierror.Error) {
	return field.Body(body, newRequest(), (*Request).read)
}

// DecodeCreate is [Decode] for a message of a WebSocket, which is always answered by a stream. If the
// member generate is false, the request is a warm-up: the client wants no output.
func DecodeCreate(message []byte) (*Request, *apierror.Error) {
	return field.Body(message, newRequest(), (*Request).readCreate)
}

func newRequest() *Request { return &Request{Suffix: responseid.NewSuffix(time.Now())} }

func (r *Request) readCreate(root wirejson.Value) *field.Error {
	var kind, generate wirejson.Value
	root.Pick(wirejson.Into("type", &kind), wirejson.Into("generate", &generate))
	if !kind.Is("response.create") {
		return field.Invalid("must be response.create").In("type")
	}
	r.Warmup = generate.Given() && !generate.IsTrue()
	f := cmp.Or(field.Optional(wirejson.KindBool, generate).In("generate"), r.read(root))
	if f == nil && r.Background {
		f = field.Unsupported("is not supported over a WebSocket").In("background")
	}
	r.Stream = true
	return f
}

func (r *Request) read(root wirejson.Value) *field.Error {
	r.Body, r.Store = root, true
	return cmp.Or(field.Members(root, r, readers), r.check())
}

var readers = field.Readers[*Request]{
	"model":                (*Request).readModel,
	"input":                (*Request).readInput,
	"instructions":         (*Request).readInstructions,
	"previous_response_id": func(r *Request, v wirejson.Value) *field.Error { return readID(&r.PreviousID, v) },
	"store":                (*Request).readStore,
	"stream":               (*Request).ReadStream,
	"stream_options":       unusedField("", "", wirejson.KindObject),
	"tools":                (*Request).readTools,
	"tool_choice":          (*Request).readToolChoice,
	"parallel_tool_calls":  (*Request).ReadParallelToolCalls,
	"text":                 (*Request).readText,
	"reasoning":            (*Request).readReasoning,
	"include":              (*Request).readInclude,
	"metadata":             (*Request).readMetadata,
	"max_output_tokens":    (*Request).readMaxTokens,
	"truncation":           (*Request).readTruncation,
	"service_tier":         (*Request).ReadServiceTier,
	"client_metadata":      (*Request).readClientMetadata,

	"background":   func(r *Request, v wirejson.Value) *field.Error { return field.Bool(&r.Background, v) },
	"top_logprobs": (*Request).readTopLogprobs,
	"conversation": (*Request).readConversation,
	"prompt":       field.Refused[*Request](noPromptsReason),
	"messages":     field.Refused[*Request]("it belongs to POST /v1/chat/completions; here it is 'input'"),

	"temperature":            echoedField("temperature", "1", func(e *responseSettings) *wirejson.Value { return &e.Temperature }, wirejson.KindNumber),
	"top_p":                  echoedField("top_p", "1", func(e *responseSettings) *wirejson.Value { return &e.TopP }, wirejson.KindNumber),
	"max_tool_calls":         echoedField("", "", func(e *responseSettings) *wirejson.Value { return &e.MaxToolCalls }, wirejson.KindNumber),
	"safety_identifier":      echoedField("", "", func(e *responseSettings) *wirejson.Value { return &e.SafetyIdentifier }, wirejson.KindString),
	"prompt_cache_key":       echoedField("", "", func(e *responseSettings) *wirejson.Value { return &e.PromptCacheKey }, wirejson.KindString),
	"user":                   echoedField("", "", func(e *responseSettings) *wirejson.Value { return &e.User }, wirejson.KindString),
	"context_management":     (*Request).readContextManagement,
	"moderation":             unusedField("moderation", "", wirejson.KindObject),
	"prompt_cache_retention": unusedField("", "", wirejson.KindString),
	"prompt_cache_options":   unusedField("", "", wirejson.KindObject),
}

var unusedField = prompt.Unused[*Request]

// echoedField is unusedField for a field that the Response repeats. member returns where the value is kept.
func echoedField(name, neutral string, member func(*responseSettings) *wirejson.Value, kind wirejson.Kind) func(*Request, wirejson.Value) *field.Error {
	return func(r *Request, v wirejson.Value) *field.Error {
		if v.Given() {
			*member(&r.echoed) = v
		}
		return r.Skip(v, name, neutral, kind)
	}
}

// noPromptsReason is the reason in the error for the field prompt.
const noPromptsReason = "there are no prompts here; use 'instructions' and 'input'"

// check checks required and dependent fields. It lists the skipped tools as ignored.
func (r *Request) check() *field.Error {
	switch {
	case r.Model == "":
		return field.Missing().In("model")
	case r.ConversationID != "" && r.PreviousID != "":
		return field.Invalid("cannot be combined with 'previous_response_id'").In("conversation")
	case !r.hasInput && r.PreviousID == "" && r.ConversationID == "":
		return field.Missing().In("input")
	case r.hasInput && len(r.input) == 0 && !r.Warmup && r.PreviousID == "" && r.ConversationID == "":
		return field.Invalid("must hold at least one item").In("input")
	case r.Background && !r.Store:
		return field.Unsupported("needs 'store': the response is read from the store").In("background")
	case r.skippedToolError != nil && !r.isCodex:
		return r.skippedToolError
	}
	if i := r.triggerIndex(); i >= 0 && i < len(r.input)-1 {
		return field.Invalid("must be the last item").At(i).In("input")
	}
	r.Ignored = append(r.Ignored, r.skippedTools...)
	return nil
}

func (r *Request) readModel(v wirejson.Value) *field.Error {
	if r.compact && !v.Given() {
		return nil
	}
	return r.ReadModel(v)
}

func (r *Request) readInstructions(v wirejson.Value) *field.Error {
	r.instructions = v.OrAbsent()
	return field.Optional(wirejson.KindString, v)
}

func readID(id *string, v wirejson.Value) *field.Error {
	f := field.Text(id, v)
	if f == nil && v.Given() {
		f = field.NonEmpty(v)
	}
	return f
}

func (r *Request) readStore(v wirejson.Value) *field.Error {
	r.Store = !v.Given() || v.IsTrue()
	return field.Optional(wirejson.KindBool, v)
}

func (r *Request) readTopLogprobs(v wirejson.Value) *field.Error {
	if string(v) == "0" {
		return nil
	}
	return r.ReadTopLogprobs(v)
}

// minOutputTokens is the least max_output_tokens that OpenAI allows.
const minOutputTokens = 16

func (r *Request) readMaxTokens(v wirejson.Value) *field.Error {
	r.echoed.MaxOutputTokens = v.OrAbsent()
	f := field.Limit(&r.MaxTokens, v)
	if f == nil && v.Given() && r.MaxTokens < minOutputTokens {
		f = field.Invalid("must be at least %d", minOutputTokens)
	}
	return f
}

func (r *Request) readTruncation(v wirejson.Value) *field.Error {
	f := field.OneOf(&r.echoed.Truncation, []string{"auto", "disabled"}, v)
	if r.echoed.Truncation == "auto" && r.Shortening.Above == 0 {
		r.Shortening.Above = prompt.FullWindow
	}
	return f
}

// readClientMetadata reads client_metadata. If a name begins with x-codex-, the client is Codex itself.
func (r *Request) readClientMetadata(v wirejson.Value) *field.Error {
	r.isCodex = false
	if v.Kind() == wirejson.KindObject {
		for name := range v.Members() {
			r.isCodex = r.isCodex || strings.HasPrefix(string(name), "x-codex-")
		}
	}
	return field.Optional(wirejson.KindObject, v)
}

// DecodeInput reads a Responses body that was sent to POST /v1/chat/completions, but only the members that
// chat completions do not have. It refuses members that refer to stored responses, since the body must have
// the whole conversation. It also refuses items that a chat completion cannot have.
func DecodeInput(root wirejson.Value) (*Request, *field.Error) {
	r := new(Request)
	r.Body = root
	if f := field.Members(root, r, inputReaders); f != nil {
		return nil, f
	}
	if len(r.input) == 0 {
		return nil, field.Invalid("must hold at least one item").In("input")
	}
	for i := range r.input {
		if f := r.input[i].checkChat(); f != nil {
			return nil, f.At(i).In("input")
		}
	}
	if f := r.checkOutputs(nil); f != nil {
		return nil, f
	}
	r.buildMessages(nil)
	return r, nil
}

var inputReaders = field.Readers[*Request]{
	"input":             (*Request).readInput,
	"instructions":      (*Request).readInstructions,
	"text":              (*Request).readText,
	"reasoning":         (*Request).readReasoning,
	"include":           (*Request).readInclude,
	"max_output_tokens": (*Request).readMaxTokens,
	"truncation":        (*Request).readTruncation,

	"background": func(_ *Request, v wirejson.Value) *field.Error {
		if v.IsTrue() {
			return field.Refuse(v, notStoredReason)
		}
		return field.Optional(wirejson.KindBool, v)
	},
	"conversation":         field.Refused[*Request](notStoredReason),
	"previous_response_id": field.Refused[*Request](notStoredReason),
	"prompt":               field.Refused[*Request](noPromptsReason),
}

// notStoredReason is the reason in the errors for members that refer to stored responses.
const notStoredReason = "an answer in the form of a chat completion is not stored; send the whole conversation, or use POST /v1/responses"

func (i *inputItem) checkChat() *field.Error {
	switch i.kind {
	case typeReference:
		return field.Unsupported("is not supported here: %s", notStoredReason).In("id")
	case typeToolSearch, typeToolSearchOutput, typeAdditionalTools, typeShellCall, typePatchCall, typeTrigger:
		return field.Unsupported("'%s' is not supported here: a chat completion has no such items; use POST /v1/responses", i.kind).In("type")
	}
	return nil
}
