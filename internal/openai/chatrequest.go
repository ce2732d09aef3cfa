package openai

import (
	"net/http"
	"strconv"
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
	for name, v := range root.members() {
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

// readRoot checks a body and returns the object that it is.
func readRoot(body []byte) (value, *Error) {
	lone, syntax := checkJSON(body)
	if syntax != nil {
		return nil, notJSON(syntax.Error())
	}
	if lone != nil {
		body = replaceLoneSurrogates(body, lone)
	}
	root := value(body[skipSpace(body, 0):])
	if root.kind() != kindObject {
		return nil, notJSON("it is " + string(root.kind()) + ", not an object")
	}
	return root, nil
}

// misdirected is the fault of a body that is wrong because it is one of the
// Responses API, with an input and no messages, or an empty list of them; else f.
// Some clients post such bodies here, and complaints of their parts would lead
// nowhere.
func misdirected(root value, f *fault) *fault {
	var messages, input value
	root.pick(member{"messages", &messages}, member{"input", &input})
	if messages.given() && !messages.isEmptyArray() || !input.given() {
		return f
	}
	return (&fault{
		problem: "is required; a body with 'input' belongs to POST /v1/responses",
		code:    codeMissing,
	}).in("messages")
}

// isEmptyArray reports whether the value is [].
func (v value) isEmptyArray() bool {
	return v.kind() == kindArray && v[skipSpace(v, 1)] == ']'
}

func notJSON(problem string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Code: "invalid_json",
		Message: "The request body could not be read as a JSON object: " + problem + ".",
	}
}

// chatFields are the readers of the fields that are looked at.
var chatFields = map[string]func(*ChatRequest, value) *fault{
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

	"temperature":            unused("temperature", "1", kindNumber),
	"top_p":                  unused("top_p", "1", kindNumber),
	"seed":                   unused("seed", "", kindNumber),
	"presence_penalty":       unused("presence_penalty", "0", kindNumber),
	"frequency_penalty":      unused("frequency_penalty", "0", kindNumber),
	"logit_bias":             unused("logit_bias", "{}", kindObject),
	"service_tier":           unused("service_tier", `"auto"`, kindString),
	"prediction":             unused("prediction", "", kindObject),
	"web_search_options":     unused("web_search_options", "", kindObject),
	"moderation":             unused("moderation", "", kindObject),
	"store":                  unused("", "", kindBool),
	"metadata":               unused("", "", kindObject),
	"user":                   unused("", "", kindString),
	"safety_identifier":      unused("", "", kindString),
	"prompt_cache_key":       unused("", "", kindString),
	"prompt_cache_retention": unused("", "", kindString),
	"prompt_cache_options":   unused("", "", kindObject),
}

// unused reads a field without a counterpart in Codex: it may be null or of one
// of the kinds. If it would change the answer it is noted under the given name,
// unless its value is the neutral one.
func unused(name, neutral string, kinds ...kind) func(*ChatRequest, value) *fault {
	return func(r *ChatRequest, v value) *fault { return r.skip(v, name, neutral, kinds) }
}

// equals reports whether the value is the one that text stands for. Some clients
// write 1 as 1.0.
func (v value) equals(text string) bool {
	if string(v) == text || v.kind() != kindNumber || text == "" {
		return string(v) == text
	}
	a, errA := strconv.ParseFloat(string(v), 64)
	b, errB := strconv.ParseFloat(text, 64)
	return errA == nil && errB == nil && a == b
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
