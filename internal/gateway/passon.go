package gateway

import (
	"bytes"
	"cmp"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// checkSpent returns the error of a request that another handler may serve, if even the best login rests because
// its plan is spent for the model. So only the turn that tries a login after its rest asks the provider again. The
// request counts for its key like any other: whoever pays the other provider relies on the key's limits.
func (g *Gateway) checkSpent(ex *exchange, req *request, asked *prompt.Conversation) *apierror.Error {
	if ex.original == nil {
		return nil
	}
	model, _ := asked.ResolveModel(g.planOptions)
	best, done := ex.lease.Peek(model)
	defer done()
	spent := failures.APIError(best.Login.Rests(model))
	if !ex.mayPassOn(spent) {
		return nil
	}
	return cmp.Or(g.countRequest(ex, req, nil), spent)
}

func (ex *exchange) mayPassOn(apiErr *apierror.Error) bool {
	key := ex.prealloc.request.key
	return apiErr != nil && apiErr.Spent && ex.original != nil && (key == nil || !key.StaysIfSpent) && ex.ctx.Err() == nil
}

// keepRequest is called under the lock of the turns when no other handler can serve the request any more: its
// answer begins, or one of its turns has worked.
func (ex *exchange) keepRequest() {
	run, kept := &ex.prealloc.running, ex.original
	if ex.original = nil; kept != nil && run.restartable == 0 && run.req.shorter == nil {
		run.req.body.Shrink(run.req.kept.forget())
	}
}

func (g *Gateway) refuseOrPassOn(ex *exchange, apiErr *apierror.Error) requestOutcome {
	if ex.mayPassOn(apiErr) {
		return requestOutcome{apiErr: apiErr, unanswered: true}
	}
	return g.refuse(ex.w, ex.r, apiErr)
}

// passOn lets Options.Next serve a request. It first releases what the request holds, except the memory of its
// body until that is read: the answer may take long. If nobody serves the request, its client gets apiErr.
func (g *Gateway) passOn(ex *exchange, apiErr *apierror.Error) {
	req, claim := &ex.prealloc.request, ex.prealloc.body
	record := usage.Record{
		Time: time.Now(), Duration: time.Since(ex.arrived), Route: req.api.Name, RequestID: requestID(ex.r), User: ex.user,
		Model: strings.Clone(usage.Shorten(req.model)), Status: apierror.PassedOn.Status, Code: apierror.PassedOn.Code,
	}
	if req.key != nil {
		record.Key = req.key.ID
	}
	claim.Shrink(int64(len(ex.original)))
	release := sync.OnceFunc(claim.Release)
	defer release()
	body := io.MultiReader(bytes.NewReader(ex.original), atEnd(release))
	ex.prealloc.body = claims.Claim{}
	ex.close()
	*req, ex.prealloc.running, ex.prealloc.choices, ex.original = request{}, runningRequest{}, [1]*choice{}, nil
	outcome := requestOutcome{apiErr: apierror.PassedOn.New("the next handler serves the request"), turns: []usage.Record{record}}
	defer func() { g.report(ex.r, outcome) }() // also if Next panics, to break its answer off
	if !g.opts.Next(ex.r, body) {
		outcome = g.refuse(ex.w, ex.r, apiErr)
	}
}

// atEnd is a reader without bytes. It is called when it is read.
type atEnd func()

// Read implements [io.Reader].
func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
