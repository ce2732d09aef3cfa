package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// CreateConversation serves POST /v1/conversations.
func (g *Gateway) CreateConversation(w http.ResponseWriter, r *http.Request) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		return g.conversationBody(w, r, "", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.CreateConversation(r, c)
		})
	})
}

// Conversation serves GET, POST and DELETE /v1/conversations/{id}.
func (g *Gateway) Conversation(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) {
		switch r.Method {
		case http.MethodPost:
			return g.conversationBody(w, r, "metadata", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
				return g.objects.UpdateConversation(r, id, c)
			})
		case http.MethodDelete:
			return g.objects.DeleteConversation(r, id)
		}
		return g.objects.Conversation(r, id, q.claimBytes)
	})
}

// ConversationItems serves GET and POST /v1/conversations/{id}/items.
func (g *Gateway) ConversationItems(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) {
		if r.Method != http.MethodPost {
			return g.objects.ConversationItems(r, id, q.claimBytes)
		}
		return g.conversationBody(w, r, "items", func(c *responses.ConversationRequest) ([]byte, *apierror.Error) {
			return g.objects.AddItems(r, id, c, q.claimBytes)
		})
	})
}

// ConversationItem serves GET and DELETE /v1/conversations/{id}/items/{item}.
func (g *Gateway) ConversationItem(w http.ResponseWriter, r *http.Request, id, item string) {
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) {
		if r.Method == http.MethodDelete {
			return g.objects.DeleteItem(r, id, item)
		}
		return g.objects.ConversationItem(r, id, item, q.claimBytes)
	})
}

// conversationBody reads and decodes the body of a request that changes a conversation, counts the
// request for its key, and calls answer with the decoded body. required is the member that the body
// must have; empty: none.
func (g *Gateway) conversationBody(w http.ResponseWriter, r *http.Request, required string, answer func(*responses.ConversationRequest) ([]byte, *apierror.Error)) ([]byte, *apierror.Error) {
	ex := g.newExchange(w, r)
	defer ex.close()
	received := receivedRequest{setLimitHeaders: setOpenAILimitHeaders}
	if apiErr := g.beginLimits(ex, &received); apiErr != nil {
		reqbody.LimitDiscard(ex.w)
		return nil, apiErr
	}
	body, _, apiErr := g.readBody(ex)
	if apiErr != nil {
		return nil, ex.preferExitError(apiErr)
	}
	var decoded *responses.ConversationRequest
	g.compute(ex, int64(len(body)), func() { decoded, apiErr = responses.DecodeConversation(body, required) })
	if apiErr == nil {
		apiErr = g.countRequest(ex, received, nil, 0)
	}
	if apiErr != nil {
		return nil, apiErr
	}
	return answer(decoded)
}

// Response serves GET and DELETE /v1/responses/{id}.
func (g *Gateway) Response(w http.ResponseWriter, r *http.Request, id string) {
	position, stream, apiErr := wantsStream(r)
	if stream && apiErr == nil && r.Method != http.MethodDelete {
		g.conclude(r, g.streamResponse(w, r, id, position))
		return
	}
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) {
		switch {
		case r.Method == http.MethodDelete:
			return g.objects.DeleteResponse(r, id)
		case apiErr != nil:
			return nil, apiErr
		}
		return g.objects.Response(r, id, q.claimBytes)
	})
}

// InputItems serves GET /v1/responses/{id}/input_items.
func (g *Gateway) InputItems(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) { return g.objects.InputItems(r, id, q.claimBytes) })
}

// CancelResponse serves POST /v1/responses/{id}/cancel.
func (g *Gateway) CancelResponse(w http.ResponseWriter, r *http.Request, id string) {
	g.serveTurnless(w, r, func(q *turnlessRequest) ([]byte, *apierror.Error) {
		return g.objects.CancelResponse(r, id, q.claimBytes)
	})
}
