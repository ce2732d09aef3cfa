package gateway

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// keyOf returns the key of a request, or nil if no key with limits was used. It looks the key up
// again for each request, since a WebSocket stays open long and the key may have changed.
func (g *Gateway) keyOf(r *http.Request) (*quota.Key, *apierror.Error) {
	if g.opts.Key == nil {
		return nil, nil
	}
	return g.opts.Key(r)
}

// beginLimits looks up the key of a request and begins the request in the limits of that key,
// before the body is read. Later, countRequest or countTurns counts the request.
func (g *Gateway) beginLimits(x *exchange, got *received) (apiErr *apierror.Error) {
	if got.key, apiErr = g.keyOf(x.r); got.key == nil || apiErr != nil {
		return apiErr
	}
	var err error
	got.limits, err = g.opts.Limits.Begin(got.key)
	showKeyLimits(x.w, *got)
	return g.limitReached(x, err)
}

// acquireTurns gets one grant from the limits of the request's key for each turn of the request.
// Without limits, it returns no grants.
func (g *Gateway) acquireTurns(x *exchange, limits *quota.Request, turns int) ([]*quota.Grant, *apierror.Error) {
	if limits == nil {
		return nil, nil
	}
	grants, err := limits.Acquire(turns)
	if err != nil {
		return nil, g.limitReached(x, err)
	}
	x.holds(releaseFunc(func() { closeGrants(grants) }))
	return grants, nil
}

// countTurns counts a request for its key, and charges the estimated input tokens of each turn to
// the limits of the key. input is the estimate for one turn.
func (g *Gateway) countTurns(x *exchange, got received, request decodedRequest) (input int64, apiErr *apierror.Error) {
	if len(got.grants) == 0 || !got.grants[0].LimitsTokens() {
		input = int64(request.GuessTokens())
	} else {
		input = int64(request.EstimateTokens())
	}
	return input, g.countRequest(x, got, got.grants, input)
}

// countRequest counts a request for its key, with input tokens for each of its turns. A request
// that a limit refuses does not count.
func (g *Gateway) countRequest(x *exchange, got received, turns []*quota.Grant, input int64) *apierror.Error {
	if got.limits == nil {
		return nil
	}
	err := got.limits.Reserve(x.ctx, turns, input)
	showKeyLimits(x.w, got)
	return g.limitReached(x, err)
}

// closeGrants closes the grants of turns that did not run: they have used no tokens. Grants of
// other turns are already closed; closing them again changes nothing.
func closeGrants(grants []*quota.Grant) {
	for _, grant := range grants {
		grant.Close(0) // no tokens were used
	}
}

// settle counts the tokens of a turn for its key. It is called before the client learns of the end,
// since the client's next request may come at once. ran means that the model was probably asked, so
// that missing counts have to be estimated.
func (c *choice) settle(ran bool) {
	a := &c.account
	a.ran = a.ran || ran
	if a.grant != nil {
		used, _ := c.tokens()
		a.grant.Close(used.InputTokens + used.OutputTokens)
	}
}

// charactersPerToken is roughly how many characters of an answer make a token.
const charactersPerToken = 4

// tokens returns how many tokens the turn has used. If the turn was interrupted, Codex may not
// report them; then the missing counts are estimated.
func (c *choice) tokens() (used codexrpc.Usage, estimated bool) {
	used, estimated = c.machine.Usage()
	if used.InputTokens+used.OutputTokens == 0 && (c.account.ran || !c.first.IsZero()) {
		used.OutputTokens, estimated = max(c.machine.Counted(), int64(c.account.said/charactersPerToken)), true
	}
	if estimated {
		used.InputTokens += c.account.input
		used.TotalTokens = used.InputTokens + used.OutputTokens
	}
	return used, estimated
}

// settleAll counts the tokens of all turns of a request that has ended with err.
func settleAll(choices []*choice, err error) {
	apiErr, failed := errors.AsType[*apierror.Error](err)
	left := err != nil && (!failed || apiErr.Code == apierror.CodeResponseCancelled)
	for _, c := range choices {
		c.settle(left && c.session.Thread() != nil)
	}
}

// limitReached converts an error of the key's limits to an API error. For any other error it
// returns nil.
func (g *Gateway) limitReached(x *exchange, err error) *apierror.Error {
	if errors.Is(err, quota.ErrUnavailable) {
		if x.r.Context().Err() == nil {
			g.opts.Logger.WarnContext(x.ctx, "the limits of keys failed", "request_id", requestID(x.r), "error", err.Error())
		}
		return apierror.LimitsUnavailable()
	}
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

// shownLimit is a limit as headers show it.
type shownLimit struct {
	unit           quota.Unit
	max, remaining int64
	resets         time.Time // zero: not known
}

// showLimit sets the headers about a limit, as the client's API names them.
type showLimit func(http.Header, shownLimit)

// showOpenAILimit sets OpenAI's headers.
func showOpenAILimit(header http.Header, l shownLimit) {
	header.Set("X-Ratelimit-Limit-"+string(l.unit), strconv.FormatInt(l.max, 10))
	header.Set("X-Ratelimit-Remaining-"+string(l.unit), strconv.FormatInt(l.remaining, 10))
	header.Del("X-Ratelimit-Reset-" + string(l.unit))
	if !l.resets.IsZero() {
		header.Set("X-Ratelimit-Reset-"+string(l.unit), max(0, time.Until(l.resets)).Truncate(time.Second).String())
	}
}

// showKeyLimits sets the headers about rate limits from the limits of the key: for each unit
// (requests, tokens) from the limit with the least left. It reports false if the key has no limit.
func showKeyLimits(w http.ResponseWriter, got received) bool {
	if got.key == nil || len(got.key.Limits) == 0 {
		return false
	}
	tightest := make(map[quota.Unit]quota.State)
	for _, s := range got.limits.States() {
		if other, ok := tightest[s.Unit]; !ok || s.Remaining() < other.Remaining() {
			tightest[s.Unit] = s
		}
	}
	for unit, s := range tightest {
		limit := shownLimit{unit: unit, max: s.Max, remaining: s.Remaining(), resets: s.Resets}
		if limit.resets.IsZero() {
			limit.resets = time.Now() // nothing is used
		}
		got.show(w.Header(), limit)
	}
	return true
}

// showLimits sets the headers about rate limits. If the key of the request has limits, it shows
// those. Otherwise it shows the plan's limits as Codex last reported them: windows of time with the
// percentage used. The headers describe the window with the highest use as if it allowed a hundred
// requests. In this case, showLimits sets no headers about tokens: a client would compare its
// tokens with a percentage and wait needlessly.
func (g *Gateway) showLimits(run *running) {
	w, req := run.x.w, run.req
	if showKeyLimits(w, req.received) {
		return
	}
	limits, _ := run.place().Conn.LastRateLimits()
	window := limits.Tightest(time.Now())
	if window == nil {
		return
	}
	const all = 100
	req.show(w.Header(), shownLimit{
		unit: quota.Requests, max: all, remaining: int64(math.Floor(max(0, all-window.UsedPercent))), resets: window.ResetsAt,
	})
}
