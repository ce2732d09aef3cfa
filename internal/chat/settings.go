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

// readModalities reads which forms of output the client wants. Every answer may have text. With
// "image", the model may make pictures as well.
func (r *Request) readModalities(v wirejson.Value) *field.Error {
	r.Pictures = nil
	return field.Elements(v, math.MaxInt, "", func(_ int, v wirejson.Value) *field.Error {
		f := field.Expect(wirejson.KindString, v)
		switch {
		case f != nil || v.Is("text"):
			return f
		case v.Is("image"):
			r.Pictures = new(prompt.Pictures)
			return nil
		}
		return field.Unsupported("is not supported: answers are text, and perhaps pictures")
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

// Without is called for a tool that the operator does not allow. If the tool is the web search and
// the request has one, Without removes the search, and records web_search_options as ignored. If
// the tool makes pictures and the client wants pictures, Without returns an error.
func (r *Request) Without(tool prompt.Hosted) *apierror.Error {
	switch {
	case tool == prompt.WebSearchTool && r.Search != nil:
		r.Search = nil
		r.Ignore("web_search_options")
	case tool == prompt.PictureTool && r.Pictures != nil:
		return field.Unsupported("are off on this server; its operator can allow pictures with the option images").In("modalities").APIError()
	}
	return nil
}

// maxChoices is the most choices that a request may ask for. Each choice is a separate turn.
const maxChoices = 8

func (r *Request) readN(v wirejson.Value) *field.Error {
	f := field.Limit(&r.Settings.Choices, v)
	if r.Settings.Choices > maxChoices {
		return field.Invalid("must be at most %d", maxChoices)
	}
	return f
}

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
