// Package completions is the wire of the legacy completions API, POST /v1/completions.
//
// [Decode] checks the body of a request, which becomes a conversation of one message. On
// the way back [Stream] and [Body] encode the texts of the outputs of its turns.
package completions

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Request is the checked body of POST /v1/completions (CreateCompletionRequest). It has
// views of the body, which must not be changed while the request is in use.
type Request struct {
	*chat.Request
	prompt jsontext.Value
	echo   bool
	bestOf int // best_of; 0: it is not given
}

// instruction makes a model of chats complete texts.
var instruction = jsontext.Value(jsontext.Quote("You complete texts. The message of the user is the beginning of a text, or a task. " +
	"Continue the text where it ends, or do the task. Answer with nothing else: do not repeat the beginning, and add no comment."))

// Decode reads and checks the body of a request. The error is always an
// invalid_request_error with status 400. Settings are read as those of chat completions.
func Decode(body []byte) (*Request, *apierror.Error) {
	return field.Body(body, new(Request), (*Request).read)
}

func (r *Request) read(root jsontext.Value) *field.Error {
	f := field.Members(root, r, readers)
	if f == nil && r.prompt == nil {
		f = field.Missing().In("prompt")
	}
	if f != nil {
		return f
	}
	r.Request, f = chat.DecodeSettings(root, []prompt.Message{
		{Role: prompt.RoleSystem, Text: instruction, Size: len(instruction)},
		{Role: prompt.RoleUser, Text: r.prompt, Size: len(r.prompt)},
	})
	if f == nil && r.bestOf > r.Choices() {
		f = field.Unsupported("is not supported above 'n': Codex gives no log probabilities to choose by").In("best_of")
	}
	return f
}

var readers = map[string]func(*Request, jsontext.Value) *field.Error{
	"prompt":   (*Request).readPrompt,
	"suffix":   (*Request).readSuffix,
	"echo":     func(r *Request, v jsontext.Value) *field.Error { return field.Bool(&r.echo, v) },
	"best_of":  func(r *Request, v jsontext.Value) *field.Error { return field.Limit(&r.bestOf, v) },
	"logprobs": func(_ *Request, v jsontext.Value) *field.Error { return new(prompt.Conversation).ReadTopLogprobs(v) },
}

// readPrompt reads a text, or a list with one text.
func (r *Request) readPrompt(v jsontext.Value) *field.Error {
	r.prompt = nil
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		r.prompt = v
		return nil
	case jsontext.KindArray:
	default:
		return field.WrongType("a string or an array of one string", v)
	}
	for i, v := range v.Elements() {
		switch {
		case v.Kind() == jsontext.KindNumber, v.Kind() == jsontext.KindArray:
			return field.Unsupported("is not supported: Codex reads texts, not tokens").At(i)
		case i > 0:
			return field.Unsupported("several prompts are not supported: send a request for each")
		}
		if f := field.Expect(jsontext.KindString, v); f != nil {
			return f.At(i)
		}
		r.prompt = v
	}
	if r.prompt == nil {
		return field.Invalid("must hold one string")
	}
	return nil
}

func (r *Request) readSuffix(v jsontext.Value) *field.Error {
	if f := field.Optional(jsontext.KindString, v); f != nil || v.Is("") {
		return f
	}
	return field.Refuse(v, "Codex cannot insert text")
}

// Echo is the text that each answer begins with: the prompt, if the client wants that.
func (r *Request) Echo() string {
	if !r.echo {
		return ""
	}
	return r.prompt.Text()
}

// Plan maps the request to Codex. The answer has no place for reasoning.
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	opts.NoReasoning = true
	return r.Request.Plan(opts)
}
