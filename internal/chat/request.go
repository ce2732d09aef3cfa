// Package chat decodes the requests and encodes the answers of chat completions.
//
// [Decode] checks the body of a request. The resulting [Request] refers to parts of that body.
// [Request.Plan] returns the plan for Codex. A turn (one answer of the model) has [turn.Output] values. An
// [Encoder] encodes these outputs as chunks, or as one body with the same content.
package chat

import (
	"cmp"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Request is the checked body of POST /v1/chat/completions (CreateChatCompletionRequest).
type Request struct {
	prompt.Conversation

	oldMaxTokens     int                 // max_tokens, the older name of max_completion_tokens; 0: it is not given
	functions        []prompt.Tool       // the older form of tools
	functionCall     prompt.ToolChoice   // the older form of tool_choice
	hasStreamOptions bool                // the request has stream_options
	Forms            map[string]ToolForm // by the name of a custom tool: the form of its calls
	hasInput         bool                // a body of the Responses API: the field input is the conversation
}

// Decode reads and checks a body, see [prompt]. The caller fetches [prompt.Conversation.RemoteImages].
//
// Some clients post bodies of the Responses API, but expect chat completions as answers. If a body
// has an input and no messages, Decode reads the input as the conversation.
func Decode(body []byte) (*Request, *apierror.Error) {
	return field.Body(body, new(Request), (*Request).read)
}

func (r *Request) read(root wirejson.Value) *field.Error {
	var messages, input wirejson.Value
	root.Pick(wirejson.Into("messages", &messages), wirejson.Into("input", &input))
	if input.Given() && (!messages.Given() || messages.IsEmptyArray()) { // a body of the Responses API
		body, f := responses.DecodeInput(root)
		if f != nil {
			return f
		}
		r.hasInput, r.Conversation = true, body.Conversation
	}
	r.Body = root
	if f := field.MembersKnowing(messages, root, r, readers); f != nil {
		return f
	}
	return r.check()
}

var readers = field.Readers[*Request]{
	"model":               (*Request).ReadModel,
	"messages":            (*Request).readMessages,
	"tools":               (*Request).readTools,
	"tool_choice":         func(r *Request, v wirejson.Value) *field.Error { return r.Choice.Read(v, readChoice) },
	"parallel_tool_calls": (*Request).ReadParallelToolCalls,
	"response_format":     func(r *Request, v wirejson.Value) *field.Error { return r.Format.Read(v, false) },
	"reasoning_effort":    (*Request).ReadReasoningEffort,
	"verbosity":           (*Request).ReadVerbosity,
	"service_tier":        (*Request).ReadServiceTier,
	"stream":              (*Request).ReadStream,
	"stream_options":      (*Request).readStreamOptions,
	"n":                   func(r *Request, v wirejson.Value) *field.Error { return r.ReadChoices(v, maxChoices) },
	"logprobs":            (*Request).readLogprobs,
	"top_logprobs":        (*Request).ReadTopLogprobs,
	"modalities":          (*Request).readModalities,
	"audio":               field.Refused[*Request]("answers are text"),
	"functions":           (*Request).readFunctions,
	"function_call":       (*Request).readFunctionCall,

	"stop":                  (*Request).readStop,
	"max_tokens":            func(r *Request, v wirejson.Value) *field.Error { return field.Limit(&r.oldMaxTokens, v) },
	"max_completion_tokens": func(r *Request, v wirejson.Value) *field.Error { return field.Limit(&r.MaxTokens, v) },

	"temperature":            unusedField("temperature", "1", wirejson.KindNumber),
	"top_p":                  unusedField("top_p", "1", wirejson.KindNumber),
	"seed":                   unusedField("seed", "", wirejson.KindNumber),
	"presence_penalty":       unusedField("presence_penalty", "0", wirejson.KindNumber),
	"frequency_penalty":      unusedField("frequency_penalty", "0", wirejson.KindNumber),
	"logit_bias":             unusedField("logit_bias", "{}", wirejson.KindObject),
	"prediction":             unusedField("prediction", "", wirejson.KindObject),
	"web_search_options":     (*Request).readSearchOptions,
	"moderation":             unusedField("moderation", "", wirejson.KindObject),
	"store":                  unusedField("", "", wirejson.KindBool),
	"metadata":               unusedField("", "", wirejson.KindObject),
	"user":                   unusedField("", "", wirejson.KindString),
	"safety_identifier":      unusedField("", "", wirejson.KindString),
	"prompt_cache_key":       unusedField("", "", wirejson.KindString),
	"prompt_cache_retention": unusedField("", "", wirejson.KindString),
	"prompt_cache_options":   unusedField("", "", wirejson.KindObject),
}

var unusedField = prompt.Unused[*Request]

// check checks required and dependent fields, and turns older forms of fields into the newer forms.
func (r *Request) check() *field.Error {
	switch {
	case r.Model == "":
		return field.Missing().In("model")
	case r.Messages == nil:
		return field.Missing().In("messages")
	case r.hasStreamOptions && !r.Stream:
		return field.Invalid("is only allowed when 'stream' is true").In("stream_options")
	}
	r.MaxTokens = cmp.Or(r.MaxTokens, r.oldMaxTokens)
	if r.Shortening.Above > 0 { // a body of the Responses API has asked for what a chat completion cannot show
		r.Ignore("truncation")
	}
	r.Shortening = prompt.Shortening{Hidden: true}
	if f := r.CheckRemoteImages(); f != nil {
		return f.In(r.ConversationField())
	}
	r.wrapCustomInputs()
	if len(r.functions) > 0 || !r.functionCall.IsAuto() {
		return r.useFunctions()
	}
	return r.CheckChoice(false).In("tool_choice")
}

// ConversationField returns the name of the field that has the conversation: messages or input.
func (r *Request) ConversationField() string {
	if r.hasInput {
		return "input"
	}
	return apierror.ParamMessages
}

func (r *Request) readStreamOptions(v wirejson.Value) *field.Error {
	r.hasStreamOptions, r.IncludeUsage = v.Given(), false
	if !r.hasStreamOptions {
		return nil
	}
	var usage, obfuscation wirejson.Value // include_obfuscation has no effect, since this server never sends obfuscation
	f := field.Object(v, wirejson.Into("include_usage", &usage), wirejson.Into("include_obfuscation", &obfuscation))
	return cmp.Or(f, field.Bool(&r.IncludeUsage, usage).In("include_usage"),
		field.Optional(wirejson.KindBool, obfuscation).In("include_obfuscation"))
}

func (r *Request) readLogprobs(v wirejson.Value) *field.Error {
	if v.IsTrue() {
		return field.Refuse(v, prompt.NoLogprobs)
	}
	return field.Optional(wirejson.KindBool, v)
}

func (r *Request) readModalities(v wirejson.Value) *field.Error {
	return field.Elements(v, math.MaxInt, "", func(_ int, v wirejson.Value) *field.Error {
		f := field.Expect(wirejson.KindString, v)
		switch {
		case f != nil || v.Is("text"):
			return f
		case v.Is("image"):
			return field.Unsupported("is not supported: answers are text; POST /v1/images/generations makes pictures, if the operator has set the option images")
		}
		return field.Unsupported("is not supported: answers are text")
	})
}

func (r *Request) readSearchOptions(v wirejson.Value) *field.Error {
	r.Search = nil
	f := field.Optional(wirejson.KindObject, v)
	if f == nil && v.Given() {
		r.Search, f = prompt.ReadWebSearch(v)
	}
	return f
}

// WithoutSearch removes web searches, which the operator forbids, and ignores web_search_options.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.Search != nil {
		r.Search = nil
		r.Ignore("web_search_options")
	}
	return nil
}

// maxChoices is the most choices that a request may ask for. Each choice is a separate turn.
const maxChoices = 8

// readStop reads the member stop (StopConfiguration): one stop sequence or a list of them.
func (r *Request) readStop(v wirejson.Value) *field.Error {
	r.StopSequences = nil
	switch v.Kind() {
	case wirejson.KindNull, wirejson.KindArray:
		return field.Elements(v, prompt.MaxStops, "strings", r.AddStop)
	case wirejson.KindString:
		return r.AddStop(0, v)
	}
	return field.WrongType("a string or an array of strings", v)
}
