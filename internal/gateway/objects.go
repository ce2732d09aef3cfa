package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

func storedRoutes() []*Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	const conversation = "/v1/conversations/*"
	all := []*Route{
		{Route: api.Route{Path: "/v1/responses/*", Methods: api.GetAnd(remove)}, stored: map[string]plain{
			get:    (*plainCall).response,
			remove: func(c *plainCall) ([]byte, *apierror.Error) { return c.g.objects.DeleteResponse(c.ex.r, c.args[0]) },
		}},
		{Route: api.Route{Path: "/v1/responses/*/input_items", Methods: api.Get}, stored: map[string]plain{
			get: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.InputItems(c.ex.r, c.args[0], c.claimBytes)
			},
		}},
		{Route: api.Route{Path: "/v1/responses/*/cancel", Methods: api.Post, NoBody: true}, stored: map[string]plain{
			post: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.CancelResponse(c.ex.r, c.args[0], c.claimBytes)
			},
		}},
		{Route: api.Route{Path: "/v1/conversations", Methods: api.Post, Name: "conversations"}, stored: map[string]plain{
			post: reading("", func(c *plainCall, body *responses.ConversationRequest) ([]byte, *apierror.Error) {
				return c.g.objects.CreateConversation(c.ex.r, body)
			}),
		}},
		{Route: api.Route{Path: conversation, Methods: api.GetAnd(post, remove), Name: "conversations"}, stored: map[string]plain{
			get: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.Conversation(c.ex.r, c.args[0], c.claimBytes)
			},
			post: reading("metadata", func(c *plainCall, body *responses.ConversationRequest) ([]byte, *apierror.Error) {
				return c.g.objects.UpdateConversation(c.ex.r, c.args[0], body)
			}),
			remove: func(c *plainCall) ([]byte, *apierror.Error) { return c.g.objects.DeleteConversation(c.ex.r, c.args[0]) },
		}},
		{Route: api.Route{Path: conversation + "/items", Methods: api.GetAnd(post), Name: "conversations"}, stored: map[string]plain{
			get: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.ConversationItems(c.ex.r, c.args[0], c.claimBytes)
			},
			post: reading("items", func(c *plainCall, body *responses.ConversationRequest) ([]byte, *apierror.Error) {
				return c.g.objects.AddItems(c.ex.r, c.args[0], body, c.claimBytes)
			}),
		}},
		{Route: api.Route{Path: conversation + "/items/*", Methods: api.GetAnd(remove), Name: "conversations"}, stored: map[string]plain{
			get: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.ConversationItem(c.ex.r, c.args[0], c.args[1], c.claimBytes)
			},
			remove: func(c *plainCall) ([]byte, *apierror.Error) {
				return c.g.objects.DeleteItem(c.ex.r, c.args[0], c.args[1])
			},
		}},
	}
	for _, rt := range all {
		rt.API = &responses.API
	}
	return all
}

// response answers GET /v1/responses/{id}, except for events, see [Gateway.streamResponse].
func (c *plainCall) response() ([]byte, *apierror.Error) {
	if _, _, apiErr := wantsStream(c.ex.r); apiErr != nil {
		return nil, apiErr
	}
	return c.g.objects.Response(c.ex.r, c.args[0], c.claimBytes)
}

// reading returns a plain for requests that create or change a conversation. The plain decodes the
// body, counts the request for its key, and calls answer. The body must have the member required, if any.
func reading(required string, answer func(*plainCall, *responses.ConversationRequest) ([]byte, *apierror.Error)) plain {
	return func(c *plainCall) ([]byte, *apierror.Error) {
		req, apiErr := c.g.beginLimits(c.ex, &responses.API)
		if apiErr != nil {
			reqbody.LimitDiscard(c.ex.w)
			return nil, apiErr
		}
		var decoded *responses.ConversationRequest
		apiErr = c.readBody(func(body []byte) (apiErr *apierror.Error) {
			decoded, apiErr = responses.DecodeConversation(body, required)
			return apiErr
		})
		if apiErr == nil {
			apiErr = c.g.countRequest(c.ex, req, nil)
		}
		if apiErr != nil {
			return nil, apiErr
		}
		return answer(c, decoded)
	}
}

func (g *Gateway) serveStored(rt *Route, w http.ResponseWriter, r *http.Request, args []string) {
	if rt.Path == "/v1/responses/*" && r.Method != http.MethodDelete {
		if position, stream, apiErr := wantsStream(r); stream && apiErr == nil {
			g.conclude(r, g.streamResponse(w, r, args[0], position))
			return
		}
	}
	answer, ok := rt.stored[r.Method]
	if !ok {
		answer = rt.stored[rt.Methods[0]] // HEAD is answered like GET
	}
	g.serveTurnless(w, r, args, answer)
}
