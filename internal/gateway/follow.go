package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// follow streams the events of a background response, beginning with the event number position. It
// returns at the response's end, or when the client leaves; then the response goes on. claim is for
// the memory of the events that wait for the client.
func (g *Gateway) follow(w http.ResponseWriter, r *http.Request, log objects.Events, position int64, claim *claims.Claim) requestOutcome {
	writer := new(sse.Writer)
	g.resetWriter(writer, w, r)
	defer func() { _ = writer.Close() }()
	wake := time.NewTimer(writer.NextKeepalive())
	defer wake.Stop()
	ctx := r.Context()
	for {
		events, changed, err := log.Next(position, claim)
		if err != nil && !writer.Started() {
			return g.refuse(w, r, apierror.NoEvents("starting_after", " from there on"))
		}
		for i := 0; i < len(events) && err == nil; i++ {
			err = writer.WriteEvent(events[i].Name, events[i].Data)
		}
		if err == nil && (len(events) > 0 || !writer.Started()) { // a flush of nothing would delay the next keepalive
			err = writer.Flush()
		}
		position += int64(len(events))
		switch {
		case err != nil:
			return undeliveredStream(err)
		case len(events) > 0:
			continue
		case changed == nil: // no more events will come
			return requestOutcome{streamed: true}
		}
		err = g.awaitEvents(ctx, writer, wake, changed)
		if ctx == r.Context() && errors.Is(err, turn.ErrShutdown) {
			// If this process makes the response, the exit ends the response, too: last events come soon.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), lastEventsWait, err)
			defer cancel()
		} else if err != nil {
			return undeliveredStream(err)
		}
	}
}

// lastEventsWait is how long follow waits for the last events after the exit has ended the request.
const lastEventsWait = 2 * time.Second

// undeliveredStream returns the outcome of a stream that was begun but broken off because of err.
func undeliveredStream(err error) requestOutcome {
	apiErr := apierror.ClientGone()
	switch {
	case errors.Is(err, turn.ErrShutdown):
		apiErr = failures.APIError(err)
	case errors.Is(err, store.ErrUnavailable):
		apiErr = apierror.StoreUnavailable()
	}
	return requestOutcome{apiErr: apiErr, deliveryErr: err, streamed: true}
}

// awaitEvents waits for more events. While it waits, it sends keepalives.
func (g *Gateway) awaitEvents(ctx context.Context, writer *sse.Writer, wake *time.Timer, changed <-chan struct{}) error {
	for {
		wake.Reset(writer.NextKeepalive())
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wake.C:
			if _, err := writer.Keepalive(); err != nil {
				return err
			}
		}
	}
}

// wantsStream reports whether a request wants a stream of a response's events. position is the number
// of the first event that the request wants.
func wantsStream(r *http.Request) (position int64, stream bool, apiErr *apierror.Error) {
	query := r.URL.Query()
	switch query.Get("stream") {
	case "", "false":
		return 0, false, nil
	case "true":
	default:
		return 0, false, apierror.InvalidRequest("stream", "stream must be true or false.")
	}
	after := query.Get("starting_after")
	if after == "" {
		return 0, true, nil
	}
	n, err := strconv.ParseInt(after, 10, 32)
	if err != nil || n < 0 {
		return 0, true, apierror.InvalidRequest("starting_after", "starting_after must be the sequence_number of an event.")
	}
	return n + 1, true, nil
}

// streamResponse streams the events of a background response of the user, beginning with the event
// number position. After the exit has begun, the stream may go on for the drain timeout.
func (g *Gateway) streamResponse(w http.ResponseWriter, r *http.Request, id string, position int64) requestOutcome {
	ex := g.newExchange(w, r)
	defer ex.close()
	ex.accepted.Store(true)
	if apiErr := g.claimRequestSlot(ex); apiErr != nil {
		return g.refuse(w, r, apiErr)
	}
	r = r.WithContext(ex.ctx)
	claim := g.answerBudget.Claim(ex.user)
	defer claim.Release()
	events, apiErr := g.objects.Events(r, id, position, claim)
	if apiErr != nil {
		return g.refuse(w, r, apiErr)
	}
	return g.follow(w, r, events, position, claim)
}
