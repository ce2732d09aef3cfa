package gateway

import "net/http"

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
