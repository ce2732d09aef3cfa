package chat

import (
	"cmp"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readStreamOptions(v jsontext.Value) *field.Error {
	r.hasOptions, r.includeUsage = v.Given(), false
	if !r.hasOptions {
		return nil
	}
	var usage, obfuscation jsontext.Value // of the latter there is none to leave out
	if f := field.Object(v, jsontext.Into("include_usage", &usage), jsontext.Into("include_obfuscation", &obfuscation)); f != nil {
		return f
	}
	return cmp.Or(field.Bool(&r.includeUsage, usage).In("include_usage"),
		field.Optional(jsontext.KindBool, obfuscation).In("include_obfuscation"))
}

func (r *Request) readLogprobs(v jsontext.Value) *field.Error {
	if v.IsTrue() {
		return prompt.NoLogprobs()
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

func (r *Request) readAudio(v jsontext.Value) *field.Error {
	if !v.Given() {
		return nil
	}
	return field.Unsupported("is not supported: answers are text")
}

func (r *Request) readResponseFormat(v jsontext.Value) *field.Error { return r.Format.Read(v, false) }
