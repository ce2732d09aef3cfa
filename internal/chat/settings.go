package chat

import (
	"cmp"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readStreamOptions(v jsontext.Value) *field.Error {
	r.hasOptions, r.IncludeUsage = v.Given(), false
	if !r.hasOptions {
		return nil
	}
	var usage, obfuscation jsontext.Value // of the latter there is none to leave out
	f := field.Object(v, jsontext.Into("include_usage", &usage), jsontext.Into("include_obfuscation", &obfuscation))
	return cmp.Or(f, field.Bool(&r.IncludeUsage, usage).In("include_usage"),
		field.Optional(jsontext.KindBool, obfuscation).In("include_obfuscation"))
}

func (r *Request) readLogprobs(v jsontext.Value) *field.Error {
	if v.IsTrue() {
		return field.Refuse(v, prompt.NoLogprobs)
	}
	return field.Optional(jsontext.KindBool, v)
}

func (r *Request) readModalities(v jsontext.Value) *field.Error {
	return field.Elements(v, math.MaxInt, "", func(_ int, v jsontext.Value) *field.Error {
		if f := field.Expect(jsontext.KindString, v); f != nil || v.Is("text") {
			return f
		}
		return field.Unsupported("is not supported: answers are text")
	})
}

func (r *Request) readSearchOptions(v jsontext.Value) *field.Error {
	r.Search = nil
	f := field.Optional(jsontext.KindObject, v)
	if f == nil && v.Given() {
		r.Search, f = prompt.ReadWebSearch(v)
	}
	return f
}

// WithoutSearch ignores the web search, since the operator does not allow it.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.Search != nil {
		r.Search = nil
		r.Ignore("web_search_options")
	}
	return nil
}

// maxChoices is how many choices a request may have. Each is a turn of its own.
const maxChoices = 8

func (r *Request) readN(v jsontext.Value) *field.Error {
	f := field.Limit(&r.Settings.Choices, v)
	if r.Settings.Choices > maxChoices {
		return field.Invalid("must be at most %d", maxChoices)
	}
	return f
}

// readStop reads a StopConfiguration: one sequence or several.
func (r *Request) readStop(v jsontext.Value) *field.Error {
	r.StopSequences = nil
	switch v.Kind() {
	case jsontext.KindNull, jsontext.KindArray:
		return field.Elements(v, prompt.MaxStops, "strings", r.AddStop)
	case jsontext.KindString:
		return r.AddStop(0, v)
	}
	return field.WrongType("a string or an array of strings", v)
}
