package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// readBody reads a request's body to its end, which streaming over HTTP/1
// needs, up to the limit. Caddy's own limit (request_body) may be lower. What the
// body takes is in the claim, which is the caller's to release. The end of the
// request's context ends the reading as well, and so does a client that is too
// slow: a request that is being read takes memory, and keeps the processes of its
// configuration.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, claim *budget.Claim) ([]byte, *openai.Error) {
	switch {
	case r.ContentLength > g.opts.MaxBody:
		LimitDiscard(w)
		return nil, openai.PayloadTooLarge(g.opts.MaxBody)
	case !claim.Fits(r.ContentLength):
		LimitDiscard(w)
		return nil, openai.BodyMemory()
	}
	expiry := newReadCut(w)
	defer expiry.close() // also if a Read panics
	stop := context.AfterFunc(r.Context(), expiry.cut)
	defer stop()
	pace := newPace(http.MaxBytesReader(w, r.Body, g.opts.MaxBody), expiry.cut)
	defer pace.stop()
	body, err := g.bodies.read(pace, r.ContentLength, claim)
	if expiry.close() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, openai.PayloadTooLarge(tooLarge.Limit)
	}
	switch {
	case errors.Is(err, errNoMemory):
		LimitDiscard(w)
		return nil, openai.BodyMemory()
	case errors.Is(err, os.ErrDeadlineExceeded) && (r.ProtoMajor == 1 || r.Context().Err() == nil):
		// Over HTTP/1 a deadline, also one of Caddy's, ends the request's context; over
		// HTTP/2 a context that has ended says that the client has gone.
		return nil, openai.BodyTimeout(minPace, maxBodyTime)
	case err != nil:
		return nil, openai.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
}

// discardTime is how long a client of HTTP/1 may go on with a body that is
// refused: the server reads a part of what is left before it answers, since many
// clients do not look for an answer before they have sent everything.
const discardTime = 2 * time.Second

// LimitDiscard bounds the time for which the server reads what is left of a
// body. It is to be called before the request is answered.
func LimitDiscard(w http.ResponseWriter) {
	// A writer that knows no deadlines has a client that cannot be slow.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(discardTime))
}

// errNoMemory ends a body for which the budget has no room.
var errNoMemory = errors.New("no memory for the body")

// pace is a body that must come at a rate. A client has the grace to begin with;
// each byte gives it time, up to the grace again, so that it may come in bursts.
type pace struct {
	body  io.Reader
	timer *time.Timer
	due   time.Time // when the time is over
	last  time.Time // after which no byte gives any
}

const (
	// minPace is the rate at which a body must come, in bytes a second.
	minPace = 1 << 10
	// paceGrace is how long a client may be silent that was faster before.
	paceGrace = 15 * time.Second
	// maxBodyTime is how long a body may take in all. The clients of OpenAI wait as
	// long for an answer.
	maxBodyTime = 10 * time.Minute
)

// newPace begins to time a body. tooSlow is called when its time is over.
func newPace(body io.Reader, tooSlow func()) *pace {
	now := time.Now()
	return &pace{body, time.AfterFunc(paceGrace, tooSlow), now.Add(paceGrace), now.Add(maxBodyTime)}
}

// Read reads. A body whose time is over stays so.
func (p *pace) Read(to []byte) (int, error) {
	n, err := p.body.Read(to)
	if n > 0 && p.timer.Stop() {
		now := time.Now()
		p.due = p.due.Add(time.Duration(n) * time.Second / minPace)
		for _, most := range []time.Time{now.Add(paceGrace), p.last} {
			if p.due.After(most) {
				p.due = most
			}
		}
		p.timer.Reset(p.due.Sub(now))
	}
	return n, err
}

// stop ends the timing.
func (p *pace) stop() { p.timer.Stop() }
