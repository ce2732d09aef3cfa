package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// DecodeInput reads those members of a body of the Responses API that chat completions
// do not have, for a body that was posted to POST /v1/chat/completions. The request has
// the whole conversation: what belongs to stored responses is refused, and so are items
// that have no form in a chat.
func DecodeInput(root jsontext.Value) (*Request, *field.Error) {
	r := new(Request)
	if f := field.Members(root, r, inputReaders); f != nil {
		return nil, f
	}
	if len(r.input) == 0 {
		return nil, field.Invalid("must hold at least one item").In("input")
	}
	for i := range r.input {
		if f := r.input[i].checkChat(); f != nil {
			return nil, f.At(i).In("input")
		}
	}
	if f := checkOutputs(nil, r.input); f != nil {
		return nil, f
	}
	r.join(nil)
	return r, nil
}

// inputReaders are the readers of [DecodeInput].
var inputReaders = map[string]func(*Request, jsontext.Value) *field.Error{
	"input":             (*Request).readInput,
	"instructions":      (*Request).readInstructions,
	"text":              (*Request).readText,
	"reasoning":         (*Request).readReasoning,
	"include":           (*Request).readInclude,
	"max_output_tokens": (*Request).readMaxTokens,
	"truncation":        (*Request).readTruncation,

	"background":           refusedIfTrue,
	"conversation":         refused(onlyStored),
	"previous_response_id": refused(onlyStored),
	"prompt":               refused("there are no prompts here; use 'instructions' and 'input'"),
}

// onlyStored is why a member that refers to stored responses is refused.
const onlyStored = "an answer in the form of a chat completion is not stored; send the whole conversation, or use POST /v1/responses"

// refusedIfTrue refuses a background response.
func refusedIfTrue(r *Request, v jsontext.Value) *field.Error {
	if v.IsTrue() {
		return refused(onlyStored)(r, v)
	}
	return field.Optional(jsontext.KindBool, v)
}

// checkChat refuses an item that has no form in a chat.
func (i *inputItem) checkChat() *field.Error {
	switch i.kind {
	case itemReference:
		return field.Unsupported("is not supported here: %s", onlyStored).In("id")
	case itemSearch, itemSearchOutput, itemAdditionalTools, itemShell, itemLocalShell, itemPatch, itemComputer:
		return field.Unsupported("'%s' is not supported here: a chat completion has no such calls; use POST /v1/responses", i.kind).In("type")
	}
	return nil
}
