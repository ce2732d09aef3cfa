package responses

import (
	"encoding/json"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// InputItems returns the items of the request's own input for a store (ItemResource):
// each has an id, and messages have parts and a status. suffix is that of the
// response's id.
func (r *Request) InputItems(suffix string) []json.RawMessage {
	items := make([]json.RawMessage, 0, len(r.input))
	taken := make(map[string]bool, len(r.input))
	for i := range r.input {
		item := &r.input[i]
		id := item.id
		if id == "" || len(id) > maxItemID || taken[id] || r.ConversationID != "" && item.kind != itemReasoningType {
			id = responseid.Item(itemKinds[item.kind].prefix, suffix, "i"+strconv.Itoa(i))
		}
		taken[id] = true
		items = append(items, item.resource(id))
	}
	return items
}

// maxItemID is the length up to which an item keeps its own id.
const maxItemID = 128

// resource returns the item with the id.
func (i *inputItem) resource(id string) json.RawMessage {
	if i.kind == itemMessageType {
		return i.messageResource(id)
	}
	status := false
	dst := appendMembers(jsontext.AppendString([]byte(`{"id":`), id), i.raw, func(name string, v jsontext.Value) bool {
		status = status || name == "status" && v.Given()
		return name != "id" && (name != "status" || v.Given())
	})
	if !status && (i.call != "" || i.answers != "") {
		dst = append(dst, `,"status":"completed"`...)
	}
	return append(dst, '}')
}

// appendMembers appends those members of an object that keep reports, each with a comma
// before it.
func appendMembers(dst []byte, object jsontext.Value, keep func(name string, v jsontext.Value) bool) []byte {
	for name, v := range object.Members() {
		if keep(string(name), v) {
			dst = append(jsontext.AppendString(append(dst, ','), name), ':')
			dst = append(dst, v.Compact()...)
		}
	}
	return dst
}

// messageResource has the members of an InputMessage or OutputMessage but for the
// content.
type messageResource struct {
	ID     string      `json:"id"`
	Type   string      `json:"type"`
	Role   prompt.Role `json:"role"`
	Phase  string      `json:"phase,omitempty"`
	Status string      `json:"status"`
}

// messageResource returns a message in its long form.
func (i *inputItem) messageResource(id string) json.RawMessage {
	m := &i.message
	dst := jsontext.Append(nil, messageResource{id, i.kind, m.Role, m.Phase, statusCompleted})
	dst = append(dst[:len(dst)-1], `,"content":`...)
	if m.Role == prompt.RoleAssistant {
		dst = m.AppendParts(dst, "output_text", `,"annotations":[],"logprobs":[]`, "")
	} else {
		dst = m.AppendParts(dst, "input_text", "", "auto")
	}
	return append(dst, '}')
}
