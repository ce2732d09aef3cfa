package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// CreateConversation serves POST /v1/conversations.
func (g *Gateway) CreateConversation(w http.ResponseWriter, r *http.Request) {
	g.visit(w, r, func(*visit) ([]byte, *apierror.Error) {
		return g.conversationBody(w, r, "", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.CreateConversation(r, c)
		})
	})
}

// Conversation serves GET, POST and DELETE /v1/conversations/{id}.
func (g *Gateway) Conversation(w http.ResponseWriter, r *http.Request, id string) {
	g.visit(w, r, func(v *visit) ([]byte, *apierror.Error) {
		switch r.Method {
		case http.MethodPost:
			return g.conversationBody(w, r, "metadata", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
				return g.objects.UpdateConversation(r, id, c)
			})
		case http.MethodDelete:
			return g.objects.DeleteConversation(r, id)
		}
		return g.objects.Conversation(r, id, v.hold)
	})
}

// ConversationItems serves GET and POST /v1/conversations/{id}/items.
func (g *Gateway) ConversationItems(w http.ResponseWriter, r *http.Request, id string) {
	g.visit(w, r, func(v *visit) ([]byte, *apierror.Error) {
		if r.Method != http.MethodPost {
			return g.objects.ConversationItems(r, id, v.hold)
		}
		return g.conversationBody(w, r, "items", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.AddItems(r, id, c, v.hold)
		})
	})
}

// ConversationItem serves GET and DELETE /v1/conversations/{id}/items/{item}.
func (g *Gateway) ConversationItem(w http.ResponseWriter, r *http.Request, id, item string) {
	g.visit(w, r, func(v *visit) ([]byte, *apierror.Error) {
		if r.Method == http.MethodDelete {
			return g.objects.DeleteItem(r, id, item)
		}
		return g.objects.ConversationItem(r, id, item, v.hold)
	})
}

// conversationBody reads and decodes the body of a request that changes a conversation, counts the
// request for its key, and calls answer with the decoded body.
func (g *Gateway) conversationBody(w http.ResponseWriter, r *http.Request, required string, answer func(*responses.ConversationRequest) ([]byte, *apierror.Error)) ([]byte, *apierror.Error) {
	x := g.newExchange(w, r)
	defer x.close()
	got := received{show: showOpenAILimit}
	if apiErr := g.beginLimits(x, &got); apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return nil, apiErr
	}
	body, _, apiErr := g.readBody(x)
	if apiErr != nil {
		return nil, x.unlessExit(apiErr)
	}
	var decoded *responses.ConversationRequest
	g.compute(x, int64(len(body)), func() { decoded, apiErr = responses.DecodeConversation(body, required) })
	if apiErr == nil {
		apiErr = g.countRequest(x, got, nil, 0)
	}
	if apiErr != nil {
		return nil, apiErr
	}
	return answer(decoded)
}

// Response serves GET and DELETE /v1/responses/{id}.
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	from, stream, apiErr := wantsStream(r)
	if stream && apiErr == nil && r.Method != http.MethodDelete {
		g.conclude(r, g.streamResponse(w, r, id, from))
		return
	}
	g.visit(w, r, func(v *visit) ([]byte, *apierror.Error) {
		switch {
		case r.Method == http.MethodDelete:
			return g.objects.DeleteResponse(r, id)
		case apiErr != nil:
			return nil, apiErr
		}
		return g.objects.Response(r, id, v.hold)
	})
}

// InputItems serves GET /v1/responses/{id}/input_items.
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	g.visit(w, r, func(v *visit) ([]byte, *apierror.Error) { return g.objects.InputItems(r, id, v.hold) })
}

// CancelResponse serves POST /v1/responses/{id}/cancel.
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	g.visit(w, r, func(*visit) ([]byte, *apierror.Error) { return g.objects.CancelResponse(r, id) })
}
