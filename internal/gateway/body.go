package gateway

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/budget"
)

// readBody reads a request's body to its end, which streaming over HTTP/1 needs, up
// to the limit. Caddy's own limit (request_body) may be lower. The memory of the body
// is added to the claim, which the caller releases. The end of ctx ends the reading,
// and so does a client that is too slow: a request that is being read takes memory,
// and keeps the processes of its configuration.
func (g *Gateway) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, claim *budget.Claim) ([]byte, *apierror.Error) {
	switch {
	case r.ContentLength > g.opts.MaxBody:
		LimitDiscard(w)
		return nil, apierror.PayloadTooLarge(g.opts.MaxBody)
	case !claim.Fits(r.ContentLength):
		LimitDiscard(w)
		return nil, apierror.BodyMemory()
	}
	reading := newReadCut(w)
	defer reading.close() // also if a Read panics
	stop := context.AfterFunc(ctx, reading.cut)
	defer stop()
	pace := newPace(http.MaxBytesReader(w, r.Body, g.opts.MaxBody), reading.cut)
	defer pace.stop()
	body, err := g.bodies.read(pace, r.ContentLength, claim)
	if reading.close() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierror.PayloadTooLarge(tooLarge.Limit)
	}
	switch {
	case errors.Is(err, errNoMemory):
		LimitDiscard(w)
		return nil, apierror.BodyMemory()
	case errors.Is(err, os.ErrDeadlineExceeded) && (r.ProtoMajor == 1 || ctx.Err() == nil):
		// Over HTTP/1 a deadline, also one of Caddy's, ends the request's context; over
		// HTTP/2 a context that has ended means that the client has gone.
		return nil, apierror.BodyTimeout(minPace, maxBodyTime)
	case err != nil:
		return nil, apierror.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
}

// discardTime is how long a client of HTTP/1 may go on sending a body that is
// refused: the server reads a part of the rest before it answers, since many
// clients do not look for an answer before they have sent everything.
const discardTime = 2 * time.Second

// LimitDiscard limits the time for which the server reads the rest of a body. It
// must be called before the request is answered.
func LimitDiscard(w http.ResponseWriter) {
	// A writer without deadlines has a client that cannot be slow.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(discardTime))
}

// readCut ends the reading of a request's body from other goroutines. A response
// writer must not be used once its handler has returned: over HTTP/2 that crashes
// the process, and over HTTP/1 the deadline would hit the next request of the
// connection. So the writer is used under the lock only, and never after close.
type readCut struct {
	mu         sync.Mutex
	controller *http.ResponseController // nil after close
	done       bool                     // cut was called before close
}

func newReadCut(w http.ResponseWriter) *readCut {
	return &readCut{controller: http.NewResponseController(w)}
}

// cut ends the reading, unless close was called.
func (c *readCut) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.controller == nil {
		return
	}
	c.done = true
	// A writer without deadlines has a client that cannot be slow.
	_ = c.controller.SetReadDeadline(time.Now())
}

// close waits for a running cut and makes later ones do nothing. It reports
// whether there was one: then the connection is of no more use, even if the body
// was complete just before.
func (c *readCut) close() (wasCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller = nil
	return c.done
}
