package prompt

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

func (r *Conversation) ReadModel(v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindString, v); f != nil {
		return f
	}
	if r.Model = v.Text(); r.Model == "" {
		return field.Invalid("must not be empty")
	}
	return nil
}

func (r *Conversation) ReadParallelToolCalls(v jsontext.Value) *field.Error {
	f := field.Optional(jsontext.KindBool, v)
	r.SerialTools = v.Kind() == jsontext.KindBool && !v.IsTrue()
	return f
}

// Efforts are the values of reasoning_effort (ReasoningEffort).
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// verbosities are the values of verbosity (Verbosity).
var verbosities = []string{"low", "medium", "high"}

func (r *Conversation) ReadReasoningEffort(v jsontext.Value) *field.Error {
	return field.OneOf(&r.Effort, Efforts, v)
}

func (r *Conversation) ReadVerbosity(v jsontext.Value) *field.Error {
	return field.OneOf(&r.Verbosity, verbosities, v)
}

func (r *Conversation) ReadStream(v jsontext.Value) *field.Error {
	f := field.Optional(jsontext.KindBool, v)
	r.Stream = v.IsTrue()
	return f
}
