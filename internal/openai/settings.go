package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

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

func (r *conversation) readStream(v jsontext.Value) *fault {
	f := optional(jsontext.KindBool, v)
	r.stream = v.IsTrue()
	return f
}
