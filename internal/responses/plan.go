package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// References returns the ids of the items that the input refers to. An id may be there several times.
func (r *Request) References() []string {
	var ids []string
	for i := range r.input {
		if r.input[i].kind == typeReference {
			ids = append(ids, r.input[i].id)
		}
	}
	return ids
}

// ItemNotFound returns the error for a reference to an item that does not exist.
func (r *Request) ItemNotFound(id string) *apierror.Error {
	at := slices.IndexFunc(r.input, func(i inputItem) bool { return i.kind == typeReference && i.id == id })
	return itemNotFound(id, max(0, at))
}

// Resolve completes the request with stored items. earlier are the items before the input. found has the
// items that the input refers to, by their ids. Resolve fails if an item is missing, if a call has no
// output, or if an output has no call.
func (r *Request) Resolve(earlier []json.RawMessage, found map[string]json.RawMessage) *apierror.Error {
	earlierItems := make([]inputItem, len(earlier))
	for i, raw := range earlier {
		if f := cmp.Or(earlierItems[i].read(r, wirejson.NewCursor(wirejson.Value(raw))), r.Count(&earlierItems[i].message)); f != nil {
			return f.In(r.earlierParam()).APIError()
		}
	}
	for i := range r.input {
		if apiErr := r.input[i].resolve(r, i, found); apiErr != nil {
			return apiErr
		}
	}
	if f := r.checkOutputs(earlierItems); f != nil {
		return f.APIError()
	}
	r.buildMessages(earlierItems)
	if r.Earlier = "input"; len(earlier) > 0 { // without earlier, only references in the input add values
		r.Earlier = r.earlierParam()
	}
	if f := cmp.Or(r.CheckRemoteImages(), r.addInputTools()); f != nil {
		return f.In("input").APIError()
	}
	return r.CheckChoice(r.Search != nil).In("tool_choice").APIError()
}

// buildMessages sets r.Messages to the instructions, the messages of earlierItems, and the input.
// Instructions of earlier responses are not included, as in OpenAI's API. It also sets r.Effort to the
// newest effort: that of an item of the input, of the request itself, or of an earlier item.
func (r *Request) buildMessages(earlierItems []inputItem) {
	r.Effort = cmp.Or(lastEffort(r.input), r.Effort, lastEffort(earlierItems))
	r.Messages = make([]prompt.Message, 0, 1+len(earlierItems)+len(r.input))
	if r.instructions != nil {
		r.Messages = append(r.Messages, prompt.Message{Role: prompt.RoleSystem, Text: r.instructions, Size: len(r.instructions)})
		r.Repeated = 1
	}
	for _, items := range [][]inputItem{earlierItems, r.input} {
		for i := range items {
			if !items[i].hiddenFromModel {
				r.Messages = append(r.Messages, items[i].message)
			}
		}
	}
}

// Plan returns the plan of the turn, see [prompt.Conversation.Plan]. Reasoning is summarized only
// if the request asks for it. Plan fails if an image still has to be fetched.
func (r *Request) Plan(opts prompt.Options) (*prompt.Plan, *apierror.Error) {
	opts.Summary = "none"
	return r.Conversation.Plan(opts)
}

// inputIndex returns the index of the input item from which r.Messages[message] was made, or -1 if this
// message comes before the input. It counts from the end, where the messages of the input are.
func (r *Request) inputIndex(message int) int {
	remaining := len(r.Messages) - message // the number of messages from this one to the end
	for i := len(r.input) - 1; i >= 0; i-- {
		if r.input[i].hiddenFromModel {
			continue
		}
		if remaining--; remaining == 0 {
			return i
		}
	}
	return -1
}

// Forget drops the body and the data that were made from the body. It is called when the turn has started.
// After Forget, only the methods for answers and errors may be called.
func (r *Request) Forget() {
	r.Conversation, r.instructions, r.input, r.inputTools = prompt.Conversation{}, nil, nil, nil
	r.echoed, r.skippedTools = responseSettings{}, nil
}

// nameFields implements [api.Answer.NameFields].
func (r *Request) nameFields(apiErr *apierror.Error) *apierror.Error {
	e := apiErr.WithConversation("input")
	if e != nil && e.Code == apierror.CodeRefused {
		return r.withItemPath(e)
	}
	return e
}

// withItemPath returns the error with which Codex has refused an item, with the path of the item in the
// request. Codex names the item by its index in the history. There, each message is one item, and the
// instructions are no item.
func (r *Request) withItemPath(e *apierror.Error) *apierror.Error {
	var n int
	if _, err := fmt.Sscanf(e.Message, "items[%d] is not a valid response item:", &n); err != nil {
		return e
	}
	_, history := prompt.SplitInstructions(r.Messages)
	named := *e
	named.Param = r.earlierParam()
	if i := r.inputIndex(len(r.Messages) - len(history) + n); i >= 0 {
		named.Param = fmt.Sprintf("input[%d]", i)
	}
	named.Message = named.Param + strings.TrimPrefix(e.Message, fmt.Sprintf("items[%d]", n))
	return &named
}
