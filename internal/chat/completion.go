package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// CompletionRequest is the checked body of POST /v1/completions (CreateCompletionRequest). It
// refers to parts of the body, so the body must not change while the request is in use.
type CompletionRequest struct {
	*Request
	prompt wirejson.Value
	echo   bool
	bestOf int // best_of; 0: it is not given
}

// completionInstruction instructs the model to continue a text or to do a task. The models need
// this instruction, since they are made for chats.
var completionInstruction = wirejson.Value(wirejson.Quote("You complete texts. The message of the user is the beginning of a text, or a task. " +
	"Continue the text where it ends, or do the task. Answer with nothing else: do not repeat the beginning, and add no comment."))

// DecodeCompletion reads and checks the body of a request. It reads the settings as [Decode] does.
// The error is always an invalid_request_error with status 400.
func DecodeCompletion(body []byte) (*CompletionRequest, *apierror.Error) {
	return field.Body(body, new(CompletionRequest), (*CompletionRequest).read)
}

func (r *CompletionRequest) read(root wirejson.Value) *field.Error {
	f := field.Members(root, r, completionReaders)
	if f == nil && r.prompt == nil {
		f = field.Missing().In("prompt")
	}
	if f != nil {
		return f
	}
	r.Request, f = DecodeSettings(root, []prompt.Message{
		{Role: prompt.RoleSystem, Text: completionInstruction, Size: len(completionInstruction)},
		{Role: prompt.RoleUser, Text: r.prompt, Size: len(r.prompt)},
	})
	if f == nil && r.bestOf > r.Choices() {
		f = field.Unsupported("is not supported above 'n': Codex gives no log probabilities to choose by").In("best_of")
	}
	return f
}

var completionReaders = map[string]func(*CompletionRequest, wirejson.Value) *field.Error{
	"prompt":  (*CompletionRequest).readPrompt,
	"suffix":  (*CompletionRequest).readSuffix,
	"echo":    func(r *CompletionRequest, v wirejson.Value) *field.Error { return field.Bool(&r.echo, v) },
	"best_of": func(r *CompletionRequest, v wirejson.Value) *field.Error { return field.Limit(&r.bestOf, v) },
	"logprobs": func(_ *CompletionRequest, v wirejson.Value) *field.Error {
		return new(prompt.Conversation).ReadTopLogprobs(v)
	},
}

// readPrompt reads the prompt: a text, or a list with one text.
func (r *CompletionRequest) readPrompt(v wirejson.Value) *field.Error {
	r.prompt = nil
	switch v.Kind() {
	case wirejson.KindNull:
		return nil
	case wirejson.KindString:
		r.prompt = v
		return nil
	case wirejson.KindArray:
	default:
		return field.WrongType("a string or an array of one string", v)
	}
	for i, v := range v.Elements() {
		switch {
		case v.Kind() == wirejson.KindNumber, v.Kind() == wirejson.KindArray:
			return field.Unsupported("is not supported: Codex reads texts, not tokens").At(i)
		case i > 0:
			return field.Unsupported("several prompts are not supported: send a request for each")
		}
		if f := field.Expect(wirejson.KindString, v); f != nil {
			return f.At(i)
		}
		r.prompt = v
	}
	if r.prompt == nil {
		return field.Invalid("must hold one string")
	}
	return nil
}

func (r *CompletionRequest) readSuffix(v wirejson.Value) *field.Error {
	if f := field.Optional(wirejson.KindString, v); f != nil || v.Is("") {
		return f
	}
	return field.Refuse(v, "Codex cannot insert text")
}

// Echo returns the text with which each answer must begin: the prompt if the client asks for an
// echo of it, or else "".
func (r *CompletionRequest) Echo() string {
	if !r.echo {
		return ""
	}
	return r.prompt.Text()
}

// Plan returns the plan of the turn that answers the request. It turns reasoning summaries off,
// since the answer has no place for them.
func (r *CompletionRequest) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	opts.NoReasoning = true
	return r.Request.Plan(opts)
}
