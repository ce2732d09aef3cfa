package chat

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

const (
	// maxChoices is how many choices a request may have. Each is a turn of its own.
	maxChoices = 8
	// maxStops is how many stop sequences OpenAI allows.
	maxStops = 4
	// maxStopBytes bounds a stop sequence, because text that may be the beginning of
	// one is held back.
	maxStopBytes = 4096
)

func (r *Request) readN(v jsontext.Value) *field.Error {
	f := field.Limit(&r.choices, v)
	if r.choices > maxChoices {
		return field.Invalid("must be at most %d", maxChoices)
	}
	return f
}

func (r *Request) readMaxTokens(v jsontext.Value) *field.Error {
	return field.Limit(&r.oldMaxTokens, v)
}

func (r *Request) readMaxCompletionTokens(v jsontext.Value) *field.Error {
	return field.Limit(&r.MaxTokens, v)
}

// readStop reads a StopConfiguration: one sequence or several.
func (r *Request) readStop(v jsontext.Value) *field.Error {
	r.stop = nil
	switch v.Kind() {
	case jsontext.KindNull, jsontext.KindArray:
		return field.Elements(v, maxStops, "strings", r.addStop)
	case jsontext.KindString:
		return r.addStop(0, v)
	}
	return field.WrongType("a string or an array of strings", v)
}

func (r *Request) addStop(_ int, v jsontext.Value) *field.Error {
	if f := field.NonEmpty(v); f != nil {
		return f
	}
	stop := v.Text()
	if len(stop) > maxStopBytes {
		return field.Invalid("must be at most %d bytes long", maxStopBytes)
	}
	if !slices.Contains(r.stop, stop) {
		r.stop = append(r.stop, stop)
	}
	return nil
}
