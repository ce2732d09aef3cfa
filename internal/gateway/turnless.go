package gateway

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	// minRequestSlots is the least value of the limit on concurrent requests, with or without turns.
	minRequestSlots = 2048
	// maxReadTime is how long a client may take to read an answer in one body.
	maxReadTime = 10 * time.Minute
	// pieceSize is how many bytes of a body are written at once. A client has WriteTimeout for each.
	pieceSize = 64 << 10
	// planTimeout bounds the wait for the limits of a plan, for which Codex asks its provider.
	planTimeout = 5 * time.Second
	// limitsAge is how old the limits of a plan may be that a request asks for.
	limitsAge = 5 * time.Second
)

// claimRequestSlot claims a slot until the exchange is closed. It fails if the user can get none now.
func (g *Gateway) claimRequestSlot(ex *exchange) *apierror.Error {
	g.crowd.Note(ex.user)
	ex.requestSlot = *g.requestSlots.Claim(ex.user)
	if !ex.requestSlot.Grow(1) {
		return apierror.QueueFull()
	}
	return nil
}

// plainCall is a request without a turn, as an [api.Call].
type plainCall struct {
	g         *Gateway
	ex        *exchange     // released when the answer is made; closed when the client has read the answer
	args      []string      // see [Gateway.Serve]
	memory    claims.Claim  // of the answer, in bytes, until the client has read the answer
	bodyClaim *claims.Claim // of the request's body; nil: the body has not been read
}

// plain makes the body of the answer to a call. It claims memory for the data that it copies.
type plain func(*plainCall) ([]byte, *apierror.Error)

// claimBytes claims memory for the answer or a part of it. It is called before that memory is used.
func (c *plainCall) claimBytes(bytes int64) *apierror.Error {
	if !c.memory.Grow(bytes) {
		return apierror.AnswerMemory()
	}
	return nil
}

// Read implements [api.Call].
func (c *plainCall) Read(decode func(body []byte) *apierror.Error) (apiErr *apierror.Error) {
	if _, apiErr = c.g.keyOf(c.ex.r); apiErr != nil {
		return apiErr
	}
	return c.readBody(decode)
}

func (c *plainCall) readBody(decode func(body []byte) *apierror.Error) *apierror.Error {
	body, claim, apiErr := c.g.readBody(c.ex)
	if c.bodyClaim = claim; apiErr != nil {
		return c.ex.preferExitError(apiErr)
	}
	c.g.compute(c.ex, int64(len(body)), func() { apiErr = decode(body) })
	return apiErr
}

// Estimate implements [api.Call].
func (c *plainCall) Estimate(count func(sample int) int) (int, *apierror.Error) {
	n, apiErr := c.g.countTokens(c.ex, c.bodyClaim, func(func() error) (int, error) { return count(prompt.SampleBytes), nil })
	return n, c.ex.preferExitError(apiErr)
}

// Plan implements [api.Call].
func (c *plainCall) Plan() *codexrpc.RateLimits {
	lease, err := c.g.upstream.Lease()
	if err != nil {
		return nil // the server exits
	}
	defer lease.Release()
	next, done := lease.Peek("")
	defer done()
	ctx, cancel := context.WithTimeout(c.ex.r.Context(), planTimeout)
	defer cancel()
	return next.Plan.RateLimits(ctx, limitsAge)
}

// countTurn counts a request's tokens. It waits for a turn's slot: counting can take as long as a turn.
func (c *plainCall) countTurn(rt *Route) ([]byte, *apierror.Error) {
	ex := c.ex
	req, decoded, apiErr := c.g.receive(ex, rt.API, rt.Turn)
	if apiErr == nil {
		apiErr = c.g.resolve(ex, req, decoded)
	}
	if apiErr == nil {
		apiErr = c.g.countRequest(ex, req, nil)
	}
	if apiErr != nil {
		return nil, ex.preferExitError(apiErr)
	}
	count, apiErr := c.g.countTokens(ex, req.body, decoded.Asked().CountTokens)
	return rt.Count(count), ex.preferExitError(apiErr)
}

// keepAnswer returns an answer that waits until its client reads it. claim is for the answer's memory.
func keepAnswer(claim *claims.Claim, answer []byte) (claims.Bytes, *apierror.Error) {
	kept, ok := claim.Keep(answer)
	if !ok {
		return claims.Bytes{}, apierror.AnswerMemory()
	}
	return kept, nil
}

// serveTurnless serves a request that needs no turn. args are those of [Gateway.Serve]. answer makes the
// body, and may claim memory for it. If the body is larger than that, serveTurnless claims the rest.
func (g *Gateway) serveTurnless(w http.ResponseWriter, r *http.Request, args []string, answer plain) {
	ex := g.newExchange(w, r)
	defer ex.close()
	c := plainCall{g: g, ex: ex, args: args, memory: *g.answerBudget.Claim(ex.user)}
	defer c.memory.Release()
	var body claims.Bytes
	apiErr := g.claimRequestSlot(ex)
	if apiErr == nil {
		var made []byte
		if made, apiErr = answer(&c); apiErr == nil {
			body, apiErr = keepAnswer(&c.memory, made)
		}
		ex.release()
		ex.prealloc.request = request{} // drops the request's body, whose claim ex.release has released
	}
	g.writeAnswer(w, r, body, apiErr)
}

// Document serves a request that needs no turn. The answer is the JSON of what document returns.
func (g *Gateway) Document(w http.ResponseWriter, r *http.Request, document func() (any, *apierror.Error)) {
	g.serveTurnless(w, r, nil, func(*plainCall) ([]byte, *apierror.Error) {
		body, apiErr := document()
		if apiErr != nil {
			return nil, apiErr
		}
		return wirejson.Append(nil, body), nil
	})
}

func (g *Gateway) writeAnswer(w http.ResponseWriter, r *http.Request, body claims.Bytes, apiErr *apierror.Error) {
	w.Header().Set("Cache-Control", "no-store") // the answer depends on x-api-key, which a caching proxy does not know
	if apiErr != nil {
		g.report(r, g.refuse(w, r, apiErr))
		return
	}
	g.report(r, requestOutcome{deliveryErr: writeJSON(w, http.StatusOK, body)})
}

// writeJSON writes a JSON body. The error is [os.ErrDeadlineExceeded] if the client does not read
// the whole body within maxReadTime. This bounds how long the body keeps its memory.
func writeJSON(w http.ResponseWriter, status int, body claims.Bytes) error {
	header, end := w.Header(), time.Now().Add(maxReadTime)
	header.Set("Content-Type", "application/json")
	if body.Len() > pieceSize {
		header.Set("Content-Length", strconv.Itoa(body.Len()))
	}
	w.WriteHeader(status)
	for time.Now().Before(end) {
		limitWrite(w)
		if err := body.Write(w, pieceSize); err != nil || body.Len() == 0 {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// limitWrite sets WriteTimeout for the next write. HTTP/1 servers clear it before the next request.
func limitWrite(w http.ResponseWriter) {
	// If the writer has no deadlines, its client cannot be slow.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout))
}
