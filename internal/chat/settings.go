package chat

import (
	"cmp"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func (r *Request) readStreamOptions(v wirejson.Value) *field.Error {
	r.hasOptions, r.IncludeUsage = v.Given(), false
	if !r.hasOptions {
		return nil
	}
	var usage, obfuscation wirejson.Value // obfuscation is never sent, so it may be on or off
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
		if f := field.Expect(wirejson.KindString, v); f != nil || v.Is("text") {
			return f
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

func (r *Request) readN(v wirejson.Value) *field.Error {
	f := field.Limit(&r.Settings.Choices, v)
	if r.Settings.Choices > maxChoices {
		return field.Invalid("must be at most %d", maxChoices)
	}
	return f
}

// readStop reads a StopConfiguration: one sequence or several.
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
