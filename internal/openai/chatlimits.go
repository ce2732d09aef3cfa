package openai

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

const (
	// maxChoices is the most choices of one request. Each is a turn of its own.
	maxChoices = 8
	// maxStops is how many stop sequences OpenAI takes.
	maxStops = 4
	// maxStopBytes bounds a stop sequence, as text that may be the beginning of one
	// is held back.
	maxStopBytes = 4096
)

func (r *ChatRequest) readN(v jsontext.Value) *fault {
	r.choices = 0
	if !v.Given() {
		return nil
	}
	n, f := readCount(v)
	if f != nil {
		return f
	}
	if n > maxChoices {
		return wrongValue("must be at most %d", maxChoices)
	}
	r.choices = n
	return nil
}

func (r *ChatRequest) readMaxTokens(v jsontext.Value) *fault {
	return readTokenLimit(&r.oldMaxTokens, v)
}

func (r *ChatRequest) readMaxCompletionTokens(v jsontext.Value) *fault {
	return readTokenLimit(&r.maxTokens, v)
}

// readStop reads a StopConfiguration: one sequence or several.
func (r *ChatRequest) readStop(v jsontext.Value) *fault {
	r.stop = nil
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		return r.addStop(v)
	case jsontext.KindArray:
	default:
		return wrongType("a string or an array of strings", v)
	}
	for i, v := range v.Elements() {
		if i == maxStops {
			return wrongValue("must hold at most %d strings", maxStops)
		}
		if f := r.addStop(v); f != nil {
			return f.at(i)
		}
	}
	return nil
}

func (r *ChatRequest) addStop(v jsontext.Value) *fault {
	if f := expectFilled(v); f != nil {
		return f
	}
	stop := v.Text()
	if len(stop) > maxStopBytes {
		return wrongValue("must be at most %d bytes long", maxStopBytes)
	}
	if !slices.Contains(r.stop, stop) {
		r.stop = append(r.stop, stop)
	}
	return nil
}
