package gateway

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/stores"
)

// ResponsesSocket serves a WebSocket at /v1/responses. The caller has checked its origin. Each
// message is answered like a body of POST /v1/responses. For each message, ResponsesSocket calls
// count with the request and a function that answers the request. count must call this function.
func (g *Gateway) ResponsesSocket(w http.ResponseWriter, r *http.Request, count func(*http.Request, func(*http.Request))) {
	user := g.opts.User(r)
	s := &socketSession{claim: g.bodies.Claim(user)}
	defer s.claim.Release()
	apiErr := g.sockets.Serve(w, r, user, func(w http.ResponseWriter, r *http.Request) (usable bool) {
		var outcome requestOutcome
		count(r, func(r *http.Request) {
			ex := g.newExchange(w, r)
			defer ex.close()
			outcome = g.handle(ex, g.responsesCodec(responses.DecodeCreate, s))
			g.report(r, outcome)
		})
		return !outcome.isCutOff()
	})
	if apiErr != nil {
		g.writeAnswer(w, r, nil, apiErr)
	}
}

// CloseSockets closes idle WebSockets immediately, and any other WebSocket after its current
// answer. Clients that connect again reach the next configuration.
func (g *Gateway) CloseSockets() { g.sockets.Close() }

// socketSession keeps the last response of a WebSocket in memory if that response was not stored.
// The next request can then continue from it.
type socketSession struct {
	lastID string        // the id of that response; empty: there is none
	entry  *stores.Entry // that response; its Input has the items of the whole conversation so far
	claim  *claims.Claim // of entry
}

// remember keeps a response that is not stored, for the next request. It drops the response that it
// kept before: clients do not continue from that one any more. If there is not enough memory, it
// keeps no response.
func (s *socketSession) remember(id string, e *stores.Entry) {
	s.lastID, s.entry = "", nil
	s.claim.Release()
	if s.claim.Grow(e.Size()) {
		s.lastID, s.entry = id, e
	}
}
