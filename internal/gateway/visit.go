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
	// minPlaces is the smallest limit on concurrent requests, whether they need turns or not.
	minPlaces = 2048
	// maxReading is how long a client may take to read an answer in one body.
	maxReading = 10 * time.Minute
	// bodyPiece is the size in bytes of the pieces in which an answer in one body is written. The
	// client has WriteTimeout to read each piece.
	bodyPiece = 64 << 10
)

// takePlace counts a request in the limit on concurrent requests, and fails if the limit is
// reached. The caller releases the claim place.
func (g *Gateway) takePlace(place *claims.Claim, user string) *apierror.Error {
	g.crowd.Note(user)
	*place = *g.places.Claim(user)
	if !place.Grow(1) {
		return apierror.QueueFull()
	}
	return nil
}

// visit has the claims of a request that needs no turn. They last until the client has read the
// answer.
type visit struct {
	place  claims.Claim
	answer claims.Claim // bytes of the answer
}

// hold claims the memory of an answer, or of a part of it. It is called before that memory is used.
func (v *visit) hold(bytes int64) *apierror.Error {
	if !v.answer.Grow(bytes) {
		return apierror.AnswerMemory()
	}
	return nil
}

// visit answers a request that needs no turn. serve returns the body of the answer, and claims the
// memory of what it copies. If the body is larger than what serve has claimed, visit claims the
// difference.
func (g *Gateway) visit(w http.ResponseWriter, r *http.Request, serve func(*visit) ([]byte, *apierror.Error)) {
	user := g.opts.User(r)
	v := visit{answer: *g.answers.Claim(user)}
	defer v.place.Release()
	defer v.answer.Release()
	var body []byte
	apiErr := g.takePlace(&v.place, user)
	if apiErr == nil {
		body, apiErr = serve(&v)
	}
	if more := int64(len(body)) - v.answer.Size(); apiErr == nil && more > 0 {
		apiErr = v.hold(more)
	}
	g.answer(w, r, body, apiErr)
}

// Document serves a request that needs no turn. The answer is a document as JSON.
func (g *Gateway) Document(w http.ResponseWriter, r *http.Request, document func() (any, *apierror.Error)) {
	g.visit(w, r, func(*visit) ([]byte, *apierror.Error) {
		body, apiErr := document()
		if apiErr != nil {
			return nil, apiErr
		}
		return wirejson.Append(nil, body), nil
	})
}

// answer answers a request that needs no turn: with the body, or with apiErr if that
// is not nil.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, body []byte, apiErr *apierror.Error) {
	w.Header().Set("Cache-Control", "no-store") // a proxy does not know that x-api-key chooses the answer
	if apiErr != nil {
		g.report(r, g.refuse(w, r, apiErr))
		return
	}
	g.report(r, requestOutcome{lost: writeJSON(w, http.StatusOK, body)})
}

// writeJSON writes a JSON body. The error is [os.ErrDeadlineExceeded] if the client does not read it
// in time. The deadline bounds how long the request keeps its memory.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	header, end := w.Header(), time.Now().Add(maxReading)
	header.Set("Content-Type", "application/json")
	if len(body) > bodyPiece {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	for time.Now().Before(end) {
		limitWrite(w)
		piece := body[:min(len(body), bodyPiece)]
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
