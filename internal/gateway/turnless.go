package gateway

import (
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	// minRequestSlots is the smallest limit on concurrent requests, whether they need turns or not.
	minRequestSlots = 2048
	// maxReadTime is how long a client may take to read an answer in one body.
	maxReadTime = 10 * time.Minute
	// pieceSize is the size in bytes of the pieces in which an answer in one body is written. The
	// client has WriteTimeout to read each piece.
	pieceSize = 64 << 10
)

// claimRequestSlot counts a request in the limit on concurrent requests, and fails if the limit is
// reached. The caller releases the claim place.
func (g *Gateway) claimRequestSlot(slot *claims.Claim, user string) *apierror.Error {
	g.crowd.Note(user)
	*slot = *g.requestSlots.Claim(user)
	if !slot.Grow(1) {
		return apierror.QueueFull()
	}
	return nil
}

// turnlessRequest has the claims of a request that needs no turn. They last until the client has read the
// answer.
type turnlessRequest struct {
	requestSlot claims.Claim
	memory      claims.Claim // of the answer, in bytes
}

// claimBytes claims the memory of an answer, or of a part of it. It is called before that memory is used.
func (q *turnlessRequest) claimBytes(bytes int64) *apierror.Error {
	if !q.memory.Grow(bytes) {
		return apierror.AnswerMemory()
	}
	return nil
}

// serveTurnless answers a request that needs no turn. makeBody returns the body of the answer, and claims the
// memory of what it copies. If the body is larger than what makeBody has claimed, serveTurnless claims the
// difference.
func (g *Gateway) serveTurnless(w http.ResponseWriter, r *http.Request, makeBody func(*turnlessRequest) ([]byte, *apierror.Error)) {
	user := g.opts.User(r)
	q := turnlessRequest{memory: *g.answerBudget.Claim(user)}
	defer q.requestSlot.Release()
	defer q.memory.Release()
	var body []byte
	apiErr := g.claimRequestSlot(&q.requestSlot, user)
	if apiErr == nil {
		body, apiErr = makeBody(&q)
	}
	if missing := int64(len(body)) - q.memory.Size(); apiErr == nil && missing > 0 {
		apiErr = q.claimBytes(missing)
	}
	g.writeAnswer(w, r, body, apiErr)
}

// Document serves a request that needs no turn. The answer is a document as JSON.
func (g *Gateway) Document(w http.ResponseWriter, r *http.Request, document func() (any, *apierror.Error)) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		body, apiErr := document()
		if apiErr != nil {
			return nil, apiErr
		}
		return wirejson.Append(nil, body), nil
	})
}

// writeAnswer answers a request that needs no turn: with the body, or with apiErr if that
// is not nil.
func (g *Gateway) writeAnswer(w http.ResponseWriter, r *http.Request, body []byte, apiErr *apierror.Error) {
	w.Header().Set("Cache-Control", "no-store") // a proxy does not know that x-api-key chooses the answer
	if apiErr != nil {
		g.report(r, g.refuse(w, r, apiErr))
		return
	}
	g.report(r, requestOutcome{deliveryErr: writeJSON(w, http.StatusOK, body)})
}

// writeJSON writes a JSON body. The error is [os.ErrDeadlineExceeded] if the client does not read it
// in time. The deadline bounds how long the request keeps its memory.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	header, end := w.Header(), time.Now().Add(maxReadTime)
	header.Set("Content-Type", "application/json")
	if len(body) > pieceSize {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	for time.Now().Before(end) {
		limitWrite(w)
		piece := body[:min(len(body), pieceSize)]
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if body = body[len(piece):]; len(body) == 0 {
			return nil
		}
	}
	return os.ErrDeadlineExceeded
}

// limitWrite bounds the next write of an answer by WriteTimeout. HTTP/1 clears the deadline before
// the next request.
func limitWrite(w http.ResponseWriter) {
	// If the writer has no deadlines, its client cannot be slow.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout))
}
