package responses

import (
	"cmp"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// Meta is what the Responses of one request have in common.
type Meta struct {
	ID      string // "resp_" and the suffix of the ids of its items
	Created int64  // Unix time in seconds
	// Now returns the current time, in Unix seconds.
	Now func() int64
	// Keep is called with the whole response before its last event or its body can be
	// read. It may be nil.
	Keep func(Record)
	// CallsInText is true if calls are part of the text and no items of their own.
	CallsInText bool

	encrypted bool // the client wants the reasoning's encrypted content
	forms     map[string]toolForm
	settings  []byte // the members that never change, as an object
}

// Encrypted reports whether the client wants the encrypted content of the reasoning.
func (r *Request) Encrypted() bool { return r.encrypted }

// Meta returns the Meta of the response. The caller sets the other fields. suffix is of
// letters and digits, for the ids of the response and its items.
func (r *Request) Meta(suffix string) Meta {
	return Meta{
		ID:        responseid.Prefix + suffix,
		encrypted: r.encrypted,
		forms:     r.forms,
		settings:  r.settingsJSON(),
	}
}

// settingsJSON returns the members of a Response that repeat the request, as an object.
// Those that the request does not have get OpenAI's defaults.
func (r *Request) settingsJSON() []byte {
	e := r.echo
	e.Model = r.Model
	e.Instructions = r.instructions
	e.PreviousResponseID = jsontext.OrNull(r.PreviousID)
	e.ToolChoice = orElse(e.ToolChoice, `"auto"`)
	e.ParallelToolCalls = !r.SerialTools
	e.Text.Format = orElse(e.Text.Format, `{"type":"text"}`)
	e.Text.Verbosity = cmp.Or(r.Verbosity, "medium")
	e.Reasoning = reasoning{jsontext.OrNull(r.Effort), jsontext.OrNull(r.Summary)}
	e.Metadata = orElse(e.Metadata, "{}")
	e.Temperature = orElse(e.Temperature, "1")
	e.TopP = orElse(e.TopP, "1")
	e.Truncation = cmp.Or(e.Truncation, "disabled")
	if r.ConversationID != "" {
		e.Conversation = &conversationRef{r.ConversationID}
	}
	e.Store, e.Background = r.Store, r.Background
	e.ServiceTier = r.ServiceTier()
	if e.Tools == nil {
		e.Tools = []jsontext.Value{}
	}
	return jsontext.Append(nil, e)
}

// orElse returns v, or the value of text if v is absent.
func orElse(v jsontext.Value, text string) jsontext.Value {
	if v == nil {
		return jsontext.Value(text)
	}
	return v
}

// completeTool returns a tool as a Response has it: a function always has parameters
// and strict.
func completeTool(v jsontext.Value) jsontext.Value {
	var kind, parameters, strict jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("parameters", &parameters), jsontext.Into("strict", &strict))
	if !kind.Is("function") || parameters != nil && strict != nil {
		return v
	}
	v = slices.Clone(v[:len(v)-1])
	if parameters == nil {
		v = append(v, `,"parameters":null`...)
	}
	if strict == nil {
		v = append(v, `,"strict":null`...)
	}
	return append(v, '}')
}
