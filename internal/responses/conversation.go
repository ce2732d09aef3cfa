package responses

import (
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// maxNewItems is how many items one request may add to a conversation, as with OpenAI.
const maxNewItems = 20

// ConversationRequest is a checked body of a request that creates a conversation, changes
// its metadata or adds items. It holds views into the body.
type ConversationRequest struct {
	request Request
}

// DecodeConversation reads and checks the body of a request about a conversation. required
// names the member that must be there, if one must: items or metadata.
func DecodeConversation(body []byte, required string) (*ConversationRequest, *apierror.Error) {
	c := new(ConversationRequest)
	if len(body) == 0 && required == "" {
		return c, nil
	}
	root, apiErr := field.Body(body)
	if apiErr != nil {
		return nil, apiErr
	}
	if f := field.Members(root, c, conversationReaders); f != nil {
		return nil, f.APIError()
	}
	if required == "items" && !c.request.hasInput || required == "metadata" && c.request.echo.Metadata == nil {
		return nil, field.Missing().In(required).APIError()
	}
	return c, nil
}

var conversationReaders = map[string]func(*ConversationRequest, jsontext.Value) *field.Error{
	"items":    (*ConversationRequest).readItems,
	"metadata": func(c *ConversationRequest, v jsontext.Value) *field.Error { return c.request.readMetadata(v) },
}

func (c *ConversationRequest) readItems(v jsontext.Value) *field.Error {
	if f := field.Optional(jsontext.KindArray, v); f != nil {
		return f
	}
	if f := c.request.readInput(v); f != nil {
		return f
	}
	if len(c.request.input) > maxNewItems {
		return field.Invalid("must hold at most %d items", maxNewItems)
	}
	for i := range c.request.input {
		if c.request.input[i].kind == itemReference {
			return field.Unsupported("must be the item itself, not a reference").At(i)
		}
	}
	return nil
}

// Items returns the items, with ids that suffix makes unique.
func (c *ConversationRequest) Items(suffix string) []json.RawMessage {
	c.request.ConversationID = "new"
	return c.request.InputItems(suffix)
}

// conversation is a Conversation (ConversationResource).
type conversation struct {
	ID        string         `json:"id"`
	Object    string         `json:"object"`
	CreatedAt int64          `json:"created_at"`
	Metadata  jsontext.Value `json:"metadata"`
}

// Object returns the Conversation of the request, created at a time in Unix seconds.
func (c *ConversationRequest) Object(id string, created int64) json.RawMessage {
	return jsontext.Append(nil, conversation{id, "conversation", created, orElse(c.request.echo.Metadata, "{}")})
}

// DeletedConversation returns the body of DELETE /v1/conversations/{id}.
func DeletedConversation(id string) []byte { return deleted(id, "conversation.deleted") }

// Added returns the list of items that were added to a conversation.
func Added(items []json.RawMessage) ([]byte, *apierror.Error) {
	return ItemList(items, Page{limit: max(1, len(items)), ascending: true})
}

// FindItem returns the index of the item with an id, or -1.
func FindItem(items []json.RawMessage, id string) int {
	return slices.IndexFunc(items, func(item json.RawMessage) bool { return ItemID(item) == id })
}

// conversationRef is the conversation of a Response (ResponseConversation).
type conversationRef struct {
	ID string `json:"id"`
}

// readConversation reads conversation: an id, or an object with one.
func (r *Request) readConversation(v jsontext.Value) *field.Error {
	if v.Kind() != jsontext.KindObject {
		return readID(&r.ConversationID, v)
	}
	var id jsontext.Value
	v.Pick(jsontext.Into("id", &id))
	if !id.Given() {
		return field.Missing().In("id")
	}
	return readID(&r.ConversationID, id)
}

// earlierParam is the field that names what precedes the input.
func (r *Request) earlierParam() string {
	if r.ConversationID != "" {
		return "conversation"
	}
	return "previous_response_id"
}
