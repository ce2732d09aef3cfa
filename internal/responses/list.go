package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// InputTokens returns the body of the answer to POST /v1/responses/input_tokens.
func InputTokens(count int) []byte {
	return fmt.Appendf(nil, `{"object":"response.input_tokens","input_tokens":%d}`, count)
}

// InputItems returns the items of the input for a store (ItemResource), without the items of earlier
// responses. An item gets a new id, with suffix, if it has no usable id, or if the response belongs to a
// conversation and the item is not reasoning. Messages get parts and a status.
func (r *Request) InputItems(suffix string) []json.RawMessage {
	items := make([]json.RawMessage, 0, len(r.input))
	taken := make(map[string]bool, len(r.input))
	for i := range r.input {
		item := &r.input[i]
		if item.kind == typeTrigger {
			continue // it asks for something once
		}
		id := item.id
		if id == "" || len(id) > maxItemID || taken[id] || r.ConversationID != "" && item.kind != typeReasoning {
			id = responseid.Item(itemTypes[item.kind].idPrefix, suffix, "i"+strconv.Itoa(i))
		}
		taken[id] = true
		items = append(items, item.storedJSON(id))
	}
	return items
}

// maxItemID is the most bytes of an item's id. An item with a longer id gets a new id.
const maxItemID = 128

// storedJSON returns the item for a store, with this id. A call or an output that has no status gets the
// status completed.
func (i *inputItem) storedJSON(id string) json.RawMessage {
	if i.kind == typeMessage {
		return i.storedMessageJSON(id)
	}
	hasStatus := false
	dst := appendMembers(wirejson.AppendString([]byte(`{"id":`), id), i.raw, func(name string, v wirejson.Value) bool {
		hasStatus = hasStatus || name == "status" && v.Given()
		return name != "id" && (name != "status" || v.Given())
	})
	if !hasStatus && (i.callID != "" || i.answeredCallID != "") {
		dst = append(dst, `,"status":"completed"`...)
	}
	return append(dst, '}')
}

// appendMembers appends the members of object for which keep returns true, each after a comma.
func appendMembers(dst []byte, object wirejson.Value, keep func(name string, v wirejson.Value) bool) []byte {
	for name, v := range object.Members() {
		if keep(string(name), v) {
			dst = append(wirejson.AppendString(append(dst, ','), name), ':')
			dst = append(dst, v.Compact()...)
		}
	}
	return dst
}

// storedMessageJSON returns a message for a store (InputMessage, OutputMessage). The content is a list.
func (i *inputItem) storedMessageJSON(id string) json.RawMessage {
	m := &i.message
	dst := wirejson.Append(nil, struct {
		ID     string      `json:"id"`
		Type   string      `json:"type"`
		Role   prompt.Role `json:"role"`
		Phase  string      `json:"phase,omitempty"`
		Status string      `json:"status"`
	}{id, i.kind, m.Role, m.Phase, statusCompleted})
	dst = append(dst[:len(dst)-1], `,"content":`...)
	if m.Role == prompt.RoleAssistant {
		dst = m.AppendParts(dst, "output_text", `,"annotations":[],"logprobs":[]`, "")
	} else {
		dst = m.AppendParts(dst, "input_text", "", "auto")
	}
	return append(dst, '}')
}

// ConversationRequest is the checked body of a request that creates a conversation, changes its
// metadata or adds items to it. Its fields share the memory of the body.
type ConversationRequest Request

// DecodeConversation reads and checks the body of a request about a conversation. required is the member
// that the body must have, items or metadata, or empty.
func DecodeConversation(body []byte, required string) (*ConversationRequest, *apierror.Error) {
	r := new(Request)
	if len(body) == 0 && required == "" {
		return (*ConversationRequest)(r), nil
	}
	r, apiErr := field.Body(body, r, func(r *Request, root wirejson.Value) *field.Error {
		f := field.Members(root, r, conversationReaders)
		if f == nil && (required == "items" && !r.hasInput || required == "metadata" && r.echoed.Metadata == nil) {
			f = field.Missing().In(required)
		}
		return f
	})
	return (*ConversationRequest)(r), apiErr
}

var conversationReaders = map[string]func(*Request, wirejson.Value) *field.Error{
	"items":    (*Request).readNewItems,
	"metadata": (*Request).readMetadata,
}

const maxNewItems = 20

func (r *Request) readNewItems(v wirejson.Value) *field.Error {
	f := cmp.Or(field.Optional(wirejson.KindArray, v), r.readInput(v))
	if f == nil && len(r.input) > maxNewItems {
		f = field.Invalid("must hold at most %d items", maxNewItems)
	}
	if at := slices.IndexFunc(r.input, func(i inputItem) bool { return i.kind == typeReference || i.kind == typeTrigger }); f == nil && at >= 0 {
		f = field.Unsupported("must be an item to keep, not a reference or a trigger").At(at)
	}
	return f
}

// Items returns the items for a store. Each item gets a new unique id with this suffix. Only an item of
// reasoning keeps its id, unless the id is missing, too long, or the id of an earlier item of the request.
func (c *ConversationRequest) Items(suffix string) []json.RawMessage {
	c.ConversationID = "new" // a conversation makes InputItems give new ids
	return (*Request)(c).InputItems(suffix)
}

// Object returns the created conversation (ConversationResource). created is in Unix seconds.
func (c *ConversationRequest) Object(id string, created int64) json.RawMessage {
	return wirejson.Append(nil, struct {
		ID        string         `json:"id"`
		Object    string         `json:"object"`
		CreatedAt int64          `json:"created_at"`
		Metadata  wirejson.Value `json:"metadata"`
	}{id, "conversation", created, orElse(c.echoed.Metadata, "{}")})
}

func (r *Request) readConversation(v wirejson.Value) *field.Error {
	if v.Kind() == wirejson.KindObject {
		var id wirejson.Value
		if v.Pick(wirejson.Into("id", &id)); !id.Given() {
			return field.Missing().In("id")
		}
		v = id
	}
	return readID(&r.ConversationID, v)
}

func (r *Request) earlierParam() string {
	if r.ConversationID != "" {
		return "conversation"
	}
	return "previous_response_id"
}
