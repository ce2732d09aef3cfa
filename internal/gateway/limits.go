package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// keyOf returns the key of a request, or nil if it has none with limits.
func (g *Gateway) keyOf(r *http.Request) (*quota.Key, *apierror.Error) {
	if g.opts.Key == nil {
		return nil, nil
	}
	return g.opts.Key(r)
}

// identify finds the key of a request. It may have changed since the client was
// authenticated: a WebSocket lives long.
func (g *Gateway) identify(x *exchange) (apiErr *apierror.Error) {
	x.key, apiErr = g.keyOf(x.r)
	return apiErr
}

// countRequest counts a request for its key, also if it is refused later for another
// reason.
func (g *Gateway) countRequest(x *exchange) *apierror.Error {
	if x.key == nil {
		return nil
	}
	err := g.opts.Ledger.Request(x.key)
	g.showKeyLimits(x)
	return limitReached(err)
}

// acquireTurns takes the places of the turns of a request from those of its key.
func (g *Gateway) acquireTurns(x *exchange, turns int) *apierror.Error {
	if x.key == nil {
		return nil
	}
	release, err := g.opts.Ledger.Acquire(x.key, turns)
	if err != nil {
		return limitReached(err)
	}
	x.atEnd(release)
	return nil
}

// limitReached returns what a client is told of a limit of its key.
func limitReached(err error) *apierror.Error {
	if e, ok := errors.AsType[*quota.ExceededError](err); ok {
		limit := apierror.KeyLimit{Unit: string(e.Limit.Unit), Max: e.Limit.Max, Window: e.Limit.Window.String(), Used: e.Used, Wanted: e.Wanted}
		if !e.Resets.IsZero() {
			limit.Resets = max(time.Second, time.Until(e.Resets))
		}
		return limit.Exceeded()
	}
	if e, ok := errors.AsType[*quota.ConcurrencyError](err); ok {
		if e.Wanted > e.Max {
			return apierror.TooManyChoices(e.Wanted, e.Max)
		}
		return apierror.KeyConcurrency(e.Max)
	}
	return nil
}

// showKeyLimits sets OpenAI's headers about rate limits from the limits of the key: of
// each unit, from the limit of which the least is left. It reports false if the key has
// none.
func (g *Gateway) showKeyLimits(x *exchange) bool {
	if x.key == nil || len(x.key.Limits) == 0 {
		return false
	}
	tightest := make(map[quota.Unit]quota.State)
	for _, s := range g.opts.Ledger.States(x.key) {
		if other, ok := tightest[s.Unit]; !ok || s.Remaining() < other.Remaining() {
			tightest[s.Unit] = s
		}
	}
	header := x.w.Header()
	for unit, s := range tightest {
		header.Set("X-Ratelimit-Limit-"+string(unit), strconv.FormatInt(s.Max, 10))
		header.Set("X-Ratelimit-Remaining-"+string(unit), strconv.FormatInt(s.Remaining(), 10))
		reset := time.Duration(0)
		if !s.Resets.IsZero() {
			reset = max(0, time.Until(s.Resets)).Truncate(time.Second)
		}
		header.Set("X-Ratelimit-Reset-"+string(unit), reset.String())
	}
	return true
}
