package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// CreateConversation serves POST /v1/conversations.
func (g *Gateway) CreateConversation(w http.ResponseWriter, r *http.Request) {
	body, apiErr := g.conversationBody(w, r, "", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
		return g.objects.CreateConversation(r, c)
	})
	g.answer(w, r, body, apiErr)
}

// Conversation serves GET, POST and DELETE /v1/conversations/{id}.
func (g *Gateway) Conversation(w http.ResponseWriter, r *http.Request, id string) {
	var body []byte
	var apiErr *apierror.Error
	switch r.Method {
	case http.MethodPost:
		body, apiErr = g.conversationBody(w, r, "metadata", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.UpdateConversation(r, id, c)
		})
	case http.MethodDelete:
		body, apiErr = g.objects.DeleteConversation(r, id)
	default:
		body, apiErr = g.objects.Conversation(r, id)
	}
	g.answer(w, r, body, apiErr)
}

// ConversationItems serves GET and POST /v1/conversations/{id}/items.
func (g *Gateway) ConversationItems(w http.ResponseWriter, r *http.Request, id string) {
	var body []byte
	var apiErr *apierror.Error
	if r.Method == http.MethodPost {
		body, apiErr = g.conversationBody(w, r, "items", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.AddItems(r, id, c)
		})
	} else {
		body, apiErr = g.objects.ConversationItems(r, id)
	}
	g.answer(w, r, body, apiErr)
}

// ConversationItem serves GET and DELETE /v1/conversations/{id}/items/{item}.
func (g *Gateway) ConversationItem(w http.ResponseWriter, r *http.Request, id, item string) {
	use := g.objects.ConversationItem
	if r.Method == http.MethodDelete {
		use = g.objects.DeleteItem
	}
	body, apiErr := use(r, id, item)
	g.answer(w, r, body, apiErr)
}

// conversationBody reads and decodes the body of a request about a conversation, and passes
// it to use.
func (g *Gateway) conversationBody(w http.ResponseWriter, r *http.Request, required string, use func(*responses.ConversationRequest) ([]byte, *apierror.Error)) ([]byte, *apierror.Error) {
	x := g.newExchange(w, r)
	defer x.close()
	body, apiErr := g.readBody(x)
	if apiErr != nil {
		return nil, x.unlessExit(apiErr)
	}
	decoded, apiErr := responses.DecodeConversation(body, required)
	if apiErr != nil {
		return nil, apiErr
	}
	return use(decoded)
}

// Response serves GET and DELETE /v1/responses/{id}.
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodDelete {
		body, apiErr := g.objects.DeleteResponse(r, id)
		g.answer(w, r, body, apiErr)
		return
	}
	from, stream, apiErr := wantsStream(r)
	if stream && apiErr == nil {
		g.conclude(r, g.streamResponse(w, r, id, from))
		return
	}
	if apiErr != nil {
		g.answer(w, r, nil, apiErr)
		return
	}
	body, apiErr := g.objects.Response(r, id)
	g.answer(w, r, body, apiErr)
}

// InputItems serves GET /v1/responses/{id}/input_items.
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	body, apiErr := g.objects.InputItems(r, id)
	g.answer(w, r, body, apiErr)
}

// CancelResponse serves POST /v1/responses/{id}/cancel.
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	body, apiErr := g.objects.CancelResponse(r, id)
	g.answer(w, r, body, apiErr)
}
