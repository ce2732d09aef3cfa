package openai

import (
	"slices"
	"strings"
)

func (r *conversation) readModel(v value) *fault {
	if f := expect(kindString, v); f != nil {
		return f
	}
	if r.model = v.text(); r.model == "" {
		return wrongValue("must not be empty")
	}
	return nil
}

func (r *conversation) readParallelToolCalls(v value) *fault {
	f := optional(kindBool, v)
	r.serialTools = v.kind() == kindBool && !v.isTrue()
	return f
}

// Efforts are the values of reasoning_effort (ReasoningEffort).
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// verbosities are the values of verbosity (Verbosity).
var verbosities = []string{"low", "medium", "high"}

func (r *conversation) readReasoningEffort(v value) *fault {
	return readOneOf(&r.effort, Efforts, v)
}

func (r *conversation) readVerbosity(v value) *fault {
	return readOneOf(&r.verbosity, verbosities, v)
}

// readOneOf reads a name that must be one of those known; none is empty.
func readOneOf(name *string, known []string, v value) *fault {
	*name = ""
	if !v.given() {
		return nil
	}
	if f := expect(kindString, v); f != nil {
		return f
	}
	if *name = v.text(); !slices.Contains(known, *name) {
		return wrongValue("must be one of %s", strings.Join(known, ", "))
	}
	return nil
}

func (r *conversation) readStream(v value) *fault {
	f := optional(kindBool, v)
	r.stream = v.isTrue()
	return f
}

func (r *ChatRequest) readStreamOptions(v value) *fault {
	r.hasOptions, r.includeUsage = v.given(), false
	if !r.hasOptions {
		return nil
	}
	if f := expect(kindObject, v); f != nil {
		return f
	}
	for name, v := range v.members() {
		switch string(name) {
		case "include_usage":
			if f := optional(kindBool, v); f != nil {
				return f.in("include_usage")
			}
			r.includeUsage = v.isTrue()
		case "include_obfuscation": // there is none to leave out
			if f := optional(kindBool, v); f != nil {
				return f.in("include_obfuscation")
			}
		}
	}
	return nil
}

func (r *ChatRequest) readLogprobs(v value) *fault {
	if f := optional(kindBool, v); f != nil {
		return f
	}
	if v.isTrue() {
		return unsupported("is not supported: Codex gives no log probabilities")
	}
	return nil
}

func (r *ChatRequest) readTopLogprobs(v value) *fault {
	if !v.given() {
		return nil
	}
	if f := expect(kindNumber, v); f != nil {
		return f
	}
	return unsupported("is not supported: Codex gives no log probabilities")
}

func (r *ChatRequest) readModalities(v value) *fault {
	if !v.given() {
		return nil
	}
	if f := expect(kindArray, v); f != nil {
		return f
	}
	for i, v := range v.elements() {
		if f := expect(kindString, v); f != nil {
			return f.at(i)
		}
		if !v.is("text") {
			return unsupported("is not supported: answers are text").at(i)
		}
	}
	return nil
}

func (r *ChatRequest) readAudio(v value) *fault {
	if !v.given() {
		return nil
	}
	return unsupported("is not supported: answers are text")
}
