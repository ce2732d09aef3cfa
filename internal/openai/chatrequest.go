package openai

import (
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// ChatRequest is a checked body of POST /v1/chat/completions
// (CreateChatCompletionRequest). It holds views into the body it was decoded
// from, which must not be changed as long as the request is in use.
type ChatRequest struct {
	conversation

	choices       int      // n; 0: one
	stop          []string // each once
	oldMaxTokens  int      // max_tokens, which max_completion_tokens has replaced
	functions     []tool   // what came before tools
	functionCall  toolChoice
	hasOptions    bool // stream_options are given
	includeUsage  bool
	usesFunctions bool // the tools are functions
}

// DecodeChat reads and checks the body of a chat completion request. The error
// is always an invalid_request_error with status 400.
//
// Refused are, besides values of a wrong type or form, what Codex cannot do: log
// probabilities, audio and files. Fields without use are accepted;
// [Plan.Ignored] names those that matter. Unknown fields are skipped. Images at
// an https URL are left to the caller, see [conversation.RemoteImages].
func DecodeChat(body []byte) (*ChatRequest, *Error) {
	root, refusal := readRoot(body)
	if refusal != nil {
		return nil, refusal
	}
	r := new(ChatRequest)
	for name, v := range root.Members() {
		read, known := chatFields[string(name)]
		if !known {
			continue
		}
		if f := read(r, v); f != nil {
			return nil, misdirected(root, f.in(string(name))).toError()
		}
	}
	if f := r.check(); f != nil {
		return nil, misdirected(root, f).toError()
	}
	return r, nil
}

// misdirected is the fault of a body that is wrong because it is one of the
// Responses API, with an input and no messages, or an empty list of them; else f.
// Some clients post such bodies here, and complaints of their parts would lead
// nowhere.
func misdirected(root jsontext.Value, f *fault) *fault {
	var messages, input jsontext.Value
	root.Pick(jsontext.Into("messages", &messages), jsontext.Into("input", &input))
	if messages.Given() && !messages.IsEmptyArray() || !input.Given() {
		return f
	}
	return (&fault{
		problem: "is required; a body with 'input' belongs to POST /v1/responses",
		code:    CodeMissingParameter,
	}).in("messages")
}

// chatFields are the readers of the fields that are looked at.
var chatFields = map[string]func(*ChatRequest, jsontext.Value) *fault{
	"model":               (*ChatRequest).readModel,
	"messages":            (*ChatRequest).readMessages,
	"tools":               (*ChatRequest).readTools,
	"tool_choice":         (*ChatRequest).readToolChoice,
	"parallel_tool_calls": (*ChatRequest).readParallelToolCalls,
	"response_format":     (*ChatRequest).readResponseFormat,
	"reasoning_effort":    (*ChatRequest).readReasoningEffort,
	"verbosity":           (*ChatRequest).readVerbosity,
	"stream":              (*ChatRequest).readStream,
	"stream_options":      (*ChatRequest).readStreamOptions,
	"n":                   (*ChatRequest).readN,
	"logprobs":            (*ChatRequest).readLogprobs,
	"top_logprobs":        (*ChatRequest).readTopLogprobs,
	"modalities":          (*ChatRequest).readModalities,
	"audio":               (*ChatRequest).readAudio,
	"functions":           (*ChatRequest).readFunctions,
	"function_call":       (*ChatRequest).readFunctionCall,

	"stop":                  (*ChatRequest).readStop,
	"max_tokens":            (*ChatRequest).readMaxTokens,
	"max_completion_tokens": (*ChatRequest).readMaxCompletionTokens,

	"temperature":            unused("temperature", "1", jsontext.KindNumber),
	"top_p":                  unused("top_p", "1", jsontext.KindNumber),
	"seed":                   unused("seed", "", jsontext.KindNumber),
	"presence_penalty":       unused("presence_penalty", "0", jsontext.KindNumber),
	"frequency_penalty":      unused("frequency_penalty", "0", jsontext.KindNumber),
	"logit_bias":             unused("logit_bias", "{}", jsontext.KindObject),
	"service_tier":           unused("service_tier", `"auto"`, jsontext.KindString),
	"prediction":             unused("prediction", "", jsontext.KindObject),
	"web_search_options":     unused("web_search_options", "", jsontext.KindObject),
	"moderation":             unused("moderation", "", jsontext.KindObject),
	"store":                  unused("", "", jsontext.KindBool),
	"metadata":               unused("", "", jsontext.KindObject),
	"user":                   unused("", "", jsontext.KindString),
	"safety_identifier":      unused("", "", jsontext.KindString),
	"prompt_cache_key":       unused("", "", jsontext.KindString),
	"prompt_cache_retention": unused("", "", jsontext.KindString),
	"prompt_cache_options":   unused("", "", jsontext.KindObject),
}

// unused reads a field without a counterpart in Codex: it may be null or of one
// of the kinds. If it would change the answer it is noted under the given name,
// unless its value is the neutral one.
func unused(name, neutral string, kinds ...jsontext.Kind) func(*ChatRequest, jsontext.Value) *fault {
	return func(r *ChatRequest, v jsontext.Value) *fault { return r.skip(v, name, neutral, kinds) }
}

// check looks at what needs more than one field, and settles it.
func (r *ChatRequest) check() *fault {
	switch {
	case r.model == "":
		return missing().in("model")
	case r.messages == nil:
		return missing().in("messages")
	case r.hasOptions && !r.stream:
		return wrongValue("is only allowed when 'stream' is true").in("stream_options")
	}
	if r.maxTokens == 0 {
		r.maxTokens = r.oldMaxTokens
	}
	if f := r.checkRemoteImages(); f != nil {
		return f.in("messages")
	}
	if len(r.functions) > 0 || !r.functionCall.isAuto() {
		return r.useFunctions()
	}
	return r.choice.check(r.tools).in("tool_choice")
}

// Choices is how many answers the client wants, 1 to 8.
func (r *ChatRequest) Choices() int { return max(1, r.choices) }
