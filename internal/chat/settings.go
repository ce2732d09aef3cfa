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
