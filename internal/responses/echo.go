package responses

import (
	"cmp"
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// echo are the values of a request that its response repeats, if they
// were given.
type echo struct {
	format                                 jsontext.Value
	tools                                  []jsontext.Value
	toolChoice                             jsontext.Value
	metadata                               jsontext.Value
	temperature, topP                      jsontext.Value
	maxTokens, maxToolCalls                jsontext.Value
	safetyIdentifier, promptCacheKey, user jsontext.Value
	truncation                             string
}

// Meta is what the Response objects of one request have in common.
type Meta struct {
	ID      string // "resp_" and the suffix of the ids of its items
	Created int64  // Unix time in seconds
	// Now tells the time at which the response is complete, in Unix seconds.
	Now func() int64
	// Keep is called with the whole response, before its last event or its body is
	// there to be read. Nil: nobody keeps it.
	Keep func(Record)
	// CallsInText says that calls stand in the text and are no items of their own.
	CallsInText bool

	encrypted bool // the client wants the reasoning's encrypted content
	forms     map[string]toolForm
	echo      []byte // the members that never change, from a comma to the last
}

// Meta returns the meta of the request's response, of which the caller sets the
// rest. suffix makes its id, and those of its items; it is of letters and digits.
func (r *Request) Meta(suffix string) Meta {
	return Meta{
		ID:        responseid.Prefix + suffix,
		encrypted: r.encrypted,
		forms:     r.forms,
		echo:      r.appendEcho(nil),
	}
}

// appendEcho appends the members of a Response that repeat the request, and
// those that say what is always so.
func (r *Request) appendEcho(dst []byte) []byte {
	e := &r.echo
	dst = append(dst, `,"model":`...)
	dst = jsontext.AppendString(dst, r.Model)
	dst = appendMember(dst, "instructions", r.instructions, "null")
	dst = append(dst, `,"previous_response_id":`...)
	dst = jsontext.AppendStringOrNull(dst, r.previous)
	dst = append(dst, `,"tools":[`...)
	for i, t := range e.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTool(dst, t)
	}
	dst = append(dst, ']')
	dst = appendMember(dst, "tool_choice", e.toolChoice, `"auto"`)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = appendBool(dst, !r.SerialTools)
	dst = append(dst, `,"text":{"format":`...)
	dst = appendValue(dst, e.format, `{"type":"text"}`)
	dst = append(dst, `,"verbosity":`...)
	dst = jsontext.AppendString(dst, cmp.Or(r.Verbosity, "medium"))
	dst = append(dst, `},"reasoning":{"effort":`...)
	dst = jsontext.AppendStringOrNull(dst, r.Effort)
	dst = append(dst, `,"summary":`...)
	dst = jsontext.AppendStringOrNull(dst, r.summary)
	dst = append(dst, '}')
	dst = appendMember(dst, "metadata", e.metadata, "{}")
	dst = appendMember(dst, "temperature", e.temperature, "1")
	dst = appendMember(dst, "top_p", e.topP, "1")
	dst = append(dst, `,"presence_penalty":0,"frequency_penalty":0,"top_logprobs":0`...)
	dst = appendMember(dst, "max_output_tokens", e.maxTokens, "null")
	dst = appendMember(dst, "max_tool_calls", e.maxToolCalls, "null")
	dst = append(dst, `,"truncation":`...)
	dst = jsontext.AppendString(dst, cmp.Or(e.truncation, "disabled"))
	dst = append(dst, `,"store":`...)
	dst = appendBool(dst, r.store)
	dst = append(dst, `,"background":false,"service_tier":"default"`...)
	dst = appendMember(dst, "safety_identifier", e.safetyIdentifier, "null")
	dst = appendMember(dst, "prompt_cache_key", e.promptCacheKey, "null")
	if e.user != nil {
		dst = appendMember(dst, "user", e.user, "")
	}
	return dst
}

// appendMember appends a member with the text of a checked value, or with the
// default.
func appendMember(dst []byte, name string, v jsontext.Value, otherwise string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return appendValue(dst, v, otherwise)
}

func appendValue(dst []byte, v jsontext.Value, otherwise string) []byte {
	if v == nil {
		return append(dst, otherwise...)
	}
	return append(dst, v.Compact()...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// appendTool appends a tool. A function has parameters and strict in any case.
func appendTool(dst []byte, v jsontext.Value) []byte {
	text := v.Compact()
	var function, parameters, strict bool
	for name, v := range v.Members() {
		switch string(name) {
		case "type":
			function = v.Is("function")
		case "parameters":
			parameters = true
		case "strict":
			strict = true
		}
	}
	if !function || parameters && strict {
		return append(dst, text...)
	}
	dst = append(dst, text[:len(text)-1]...)
	if !parameters {
		dst = append(dst, `,"parameters":null`...)
	}
	if !strict {
		dst = append(dst, `,"strict":null`...)
	}
	return append(dst, '}')
}

// customInput takes the text out of the arguments of a custom tool's function.
// Arguments of another form are the text themselves: better an odd text than
// none.
func customInput(arguments []byte) string {
	var call struct {
		Input *string `json:"input"`
	}
	if err := json.Unmarshal(arguments, &call); err != nil || call.Input == nil {
		return string(arguments)
	}
	return *call.Input
}
