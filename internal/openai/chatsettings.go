package openai

import (
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

func (r *ChatRequest) readStreamOptions(v jsontext.Value) *fault {
	r.hasOptions, r.includeUsage = v.Given(), false
	if !r.hasOptions {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	for name, v := range v.Members() {
		switch string(name) {
		case "include_usage":
			if f := optional(jsontext.KindBool, v); f != nil {
				return f.in("include_usage")
			}
			r.includeUsage = v.IsTrue()
		case "include_obfuscation": // there is none to leave out
			if f := optional(jsontext.KindBool, v); f != nil {
				return f.in("include_obfuscation")
			}
		}
	}
	return nil
}

func (r *ChatRequest) readLogprobs(v jsontext.Value) *fault {
	if f := optional(jsontext.KindBool, v); f != nil {
		return f
	}
	if v.IsTrue() {
		return unsupported("is not supported: Codex gives no log probabilities")
	}
	return nil
}

func (r *ChatRequest) readTopLogprobs(v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindNumber, v); f != nil {
		return f
	}
	return unsupported("is not supported: Codex gives no log probabilities")
}

func (r *ChatRequest) readModalities(v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if f := expect(jsontext.KindString, v); f != nil {
			return f.at(i)
		}
		if !v.Is("text") {
			return unsupported("is not supported: answers are text").at(i)
		}
	}
	return nil
}

func (r *ChatRequest) readAudio(v jsontext.Value) *fault {
	if !v.Given() {
		return nil
	}
	return unsupported("is not supported: answers are text")
}

func (r *ChatRequest) readResponseFormat(v jsontext.Value) *fault { return r.format.read(v, false) }
