package openai

import (
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// PreviousID is the id of the response that this one follows; empty: none.
func (r *ResponseRequest) PreviousID() string { return r.previous }

// Stored reports whether the response is to be kept.
func (r *ResponseRequest) Stored() bool { return r.store }

// References are the ids of the items that the input refers to, each as often as
// it is named.
func (r *ResponseRequest) References() []string {
	var ids []string
	for i := range r.input {
		if r.input[i].kind == itemReference {
			ids = append(ids, r.input[i].id)
		}
	}
	return ids
}

// ItemNotFound is the 400 of a reference to an item that is not there.
func (r *ResponseRequest) ItemNotFound(id string) *Error {
	at := slices.IndexFunc(r.input, func(i inputItem) bool { return i.kind == itemReference && i.id == id })
	return itemNotFound(id, max(0, at))
}

// Resolve completes the request: earlier are the items of the responses that it
// follows, and found are those that its input refers to, by their ids. The calls
// of all of them need their outputs.
func (r *ResponseRequest) Resolve(earlier []json.RawMessage, found map[string]json.RawMessage) *Error {
	before := make([]inputItem, 0, len(earlier))
	for _, raw := range earlier {
		item, f := r.readItem(jsontext.Value(raw))
		if f == nil {
			f = r.count(&item.message)
		}
		if f != nil {
			return f.in("previous_response_id").toError()
		}
		before = append(before, item)
	}
	for i := range r.input {
		if refusal := r.input[i].resolve(r, i, found); refusal != nil {
			return refusal
		}
	}
	if f := checkOutputs(before, r.input); f != nil {
		return f.toError()
	}
	r.join(before)
	if f := r.checkRemoteImages(); f != nil {
		return f.in("input").toError()
	}
	if f := r.addMoreTools(); f != nil {
		return f.in("input").toError()
	}
	if f := r.choice.check(r.tools); f != nil {
		return f.in("tool_choice").toError()
	}
	return nil
}

// join makes one conversation of the instructions and all items. The
// instructions of earlier responses are not among the items, as with OpenAI.
func (r *ResponseRequest) join(before []inputItem) {
	r.messages = make([]message, 0, 1+len(before)+len(r.input))
	if r.instructions != nil {
		r.messages = append(r.messages, message{role: roleSystem, text: r.instructions, size: len(r.instructions)})
	}
	for _, items := range [][]inputItem{before, r.input} {
		for i := range items {
			if !items[i].silent {
				r.messages = append(r.messages, items[i].message)
			}
		}
	}
}

// Plan maps the request to the app-server's terms, as [ChatRequest.Plan] does.
// Its reasoning is summarized only if the request asks for that.
func (r *ResponseRequest) Plan(opts PlanOptions) (*Plan, *Error) {
	if m, p, found := r.findRemote(""); found {
		f := notFetched()
		f.path = r.imagePath(m, p)
		return nil, f.toError()
	}
	p := r.plan(opts)
	if !opts.NoReasoning {
		p.Turn.Summary = r.summary
		if r.summary == "" {
			p.Turn.Summary = "none"
		}
	}
	return p, nil
}

// DontStore says that responses are not kept here, which the response then says
// as well.
func (r *ResponseRequest) DontStore() { r.store = false }

// ImageParam is the field that names the URL of a remote image first, such as
// input[2].content[1].image_url; empty if none does.
func (r *ResponseRequest) ImageParam(url string) string {
	m, p, found := r.findRemote(url)
	if !found {
		return ""
	}
	return r.imagePath(m, p)
}

// imagePath is the path of an image in a message of the conversation.
func (r *ResponseRequest) imagePath(message, part int) string {
	i := r.inputOf(message)
	if i < 0 {
		return "previous_response_id"
	}
	where := "content"
	if r.input[i].answers != "" {
		where = "output"
	}
	return (&fault{}).in("image_url").at(part).in(where).at(i).in("input").path
}

// inputOf is the item of the input that is a message of the conversation, which
// ends with the messages of the input; -1: it is one of a response before.
func (r *ResponseRequest) inputOf(message int) int {
	behind := len(r.messages) - message // counts the message itself
	for i := len(r.input) - 1; i >= 0; i-- {
		if r.input[i].silent {
			continue
		}
		if behind--; behind == 0 {
			return i
		}
	}
	return -1
}

// Forget lets go of the body and of all that was made of it, once the turn has
// been started: only the answers and errors that come then can still be told.
func (r *ResponseRequest) Forget() {
	r.conversation, r.instructions, r.input, r.more = conversation{}, nil, nil, nil
	r.echo, r.declared, r.skipped = responseEcho{}, nil, nil
}
