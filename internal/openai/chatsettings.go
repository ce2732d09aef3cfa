package openai

import (
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"slices"
	"strings"
)

func (r *conversation) readModel(v jsontext.Value) *fault {
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	if r.model = v.Text(); r.model == "" {
		return wrongValue("must not be empty")
	}
	return nil
}

func (r *conversation) readParallelToolCalls(v jsontext.Value) *fault {
	f := optional(jsontext.KindBool, v)
	r.serialTools = v.Kind() == jsontext.KindBool && !v.IsTrue()
	return f
}

// Efforts are the values of reasoning_effort (ReasoningEffort).
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// verbosities are the values of verbosity (Verbosity).
var verbosities = []string{"low", "medium", "high"}

func (r *conversation) readReasoningEffort(v jsontext.Value) *fault {
	return readOneOf(&r.effort, Efforts, v)
}

func (r *conversation) readVerbosity(v jsontext.Value) *fault {
	return readOneOf(&r.verbosity, verbosities, v)
}

// readOneOf reads a name that must be one of those known; none is empty.
func readOneOf(name *string, known []string, v jsontext.Value) *fault {
	*name = ""
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindString, v); f != nil {
		return f
	}
	if *name = v.Text(); !slices.Contains(known, *name) {
		return wrongValue("must be one of %s", strings.Join(known, ", "))
	}
	return nil
}

func (r *conversation) readStream(v jsontext.Value) *fault {
	f := optional(jsontext.KindBool, v)
	r.stream = v.IsTrue()
	return f
}

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
