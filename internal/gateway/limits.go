package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// keyOf returns the key of a request, or nil if no key with limits was used. It looks the key up
// for each request, since the key may change while a WebSocket is open.
func (g *Gateway) keyOf(r *http.Request) (*quota.Key, *apierror.Error) {
	if g.opts.Key == nil {
		return nil, nil
	}
	return g.opts.Key(r)
}

// beginLimits begins a request to an API. It looks up the key before the body is read. It refuses the
// request if a limit of the key has just refused another request. countRequest or countTurns counts
// the request later.
func (g *Gateway) beginLimits(ex *exchange, of *api.API) (req *request, apiErr *apierror.Error) {
	req = &ex.prealloc.request
	req.api = of
	if req.key, apiErr = g.keyOf(ex.r); req.key == nil || apiErr != nil {
		return req, apiErr
	}
	ex.recording.Key(req.key.ID)
	var err error
	req.limits, err = g.opts.Limits.Begin(req.key)
	req.setKeyLimitHeaders(ex.w)
	return req, g.limitReached(ex, err)
}

// acquireGrants gets a grant for each turn. If the key limits neither turns nor tokens, it gets none.
func (g *Gateway) acquireGrants(ex *exchange, limits *quota.Request, turns int) ([]*quota.Grant, *apierror.Error) {
	if limits == nil {
		return nil, nil
	}
	grants, err := limits.Acquire(turns)
	if err != nil {
		return nil, g.limitReached(ex, err)
	}
	ex.releaseOnClose(releaseFunc(func() { closeGrants(grants) }))
	return grants, nil
}

// countTurns counts a request for its key, and charges the estimated tokens of the input for each turn. It
// refuses the request if the key's share of a window of the plan is used up.
func (g *Gateway) countTurns(ex *exchange, req *request, asked *prompt.Conversation) *apierror.Error {
	sample := 0
	if len(req.grants) > 0 && req.grants[0].LimitsTokens() {
		sample = prompt.SampleBytes
	}
	req.input = int64(asked.EstimateTokens(sample))
	var windows []usage.PlanWindow
	if req.key != nil && req.key.PlanShare > 0 {
		windows = g.planWindows(ex, asked)
	}
	return g.countRequest(ex, req, req.grants, windows...)
}

// planWindows returns the windows in which a request would be counted, of each login that may serve it.
func (g *Gateway) planWindows(ex *exchange, asked *prompt.Conversation) (windows []usage.PlanWindow) {
	asking, _ := asked.ResolveModel(g.planOptions)
	seen := make(map[string]bool)
	for _, m := range ex.lease.Members() {
		model := asking
		if m.Login.For(model).Reserve {
			model = codexrpc.ReserveModel
		}
		if login, meter := m.Meter(model); !seen[login] {
			seen[login] = true
			windows = append(windows, usage.PlanWindows(login, meter, time.Now())...)
		}
	}
	return windows
}

// refusesLogin returns why a turn of the request is not to use a login: the key has used up its share there. Nil: it may.
func (req *request) refusesLogin(loginID string) error {
	if used := req.limits.ShareUsed(loginID); used != nil {
		return exceeded(used)
	}
	return nil
}

// countRequest counts a request for its key, and charges req.input to each of the grants. A request
// that a limit refuses, or the key's share of one of the windows, does not count.
func (g *Gateway) countRequest(ex *exchange, req *request, grants []*quota.Grant, windows ...usage.PlanWindow) *apierror.Error {
	if req.limits == nil {
		return nil
	}
	var shares []quota.Limit
	if len(windows) > 0 {
		shares = g.opts.PlanLimits(windows)(req.key)
	}
	err := req.limits.Reserve(ex.ctx, grants, req.input, shares...)
	req.setKeyLimitHeaders(ex.w)
	return g.limitReached(ex, err)
}

// closeGrants closes the grants of turns that did not run: they have used no tokens. Grants of
// other turns are already closed; closing them again changes nothing.
func closeGrants(grants []*quota.Grant) {
	for _, grant := range grants {
		grant.Close(0)
	}
}

// settle counts the tokens of a turn for its key. It is called before the client gets the end of the
// answer, since the client's next request may follow immediately. modelAsked says that the model was
// probably asked: then missing counts are estimated, even if there was no output.
func (c *choice) settle(modelAsked bool) {
	c.modelAsked = c.modelAsked || modelAsked
	if c.grant != nil {
		used, _ := c.tokens()
		var shares []quota.Limit
		if key := c.run.req.key; key.PlanShare > 0 && c.turn != nil {
			login, meter := c.turn.Meter()
			shares = c.run.g.opts.PlanLimits(usage.PlanWindows(login, meter, time.Now()))(key)
		}
		c.grant.Settle(used.InputTokens+used.OutputTokens, usage.Cost(used), shares)
	}
}

// charactersPerToken is roughly how many characters of an answer make a token.
const charactersPerToken = 4

// tokens returns how many tokens the turn has used. Codex may not report the tokens of an interrupted
// turn. Then they are estimated, if there was an output or the model was probably asked.
func (c *choice) tokens() (used codexrpc.Usage, estimated bool) {
	used, estimated = c.machine.Usage()
	if used.InputTokens+used.OutputTokens == 0 && (c.modelAsked || !c.firstOutput.IsZero()) {
		used.OutputTokens, estimated = max(c.machine.Counted(), int64(c.outputChars/charactersPerToken)), true
	}
	if estimated {
		used.InputTokens += c.run.req.input
		used.TotalTokens = used.InputTokens + used.OutputTokens
	}
	return used.Add(c.usedBefore.Usage), estimated || c.usedBefore.Estimated
}

// settleAll counts the tokens of all turns of a request that has ended. err is why the request failed, or
// nil. An err that is no API error means that the turns were broken off, mostly since the client left.
// Codex may not report the tokens of such turns, although the model was asked.
func settleAll(choices []*choice, err error) {
	apiErr, failed := errors.AsType[*apierror.Error](err)
	brokenOff := err != nil && (!failed || apiErr.Code == apierror.CodeResponseCancelled)
	for _, c := range choices {
		c.settle(brokenOff && c.turn != nil)
	}
}

// limitReached is [LimitReached]. It also logs that the limits could not be checked.
func (g *Gateway) limitReached(ex *exchange, err error) *apierror.Error {
	if errors.Is(err, quota.ErrUnavailable) && ex.r.Context().Err() == nil {
		g.opts.Logger.WarnContext(ex.ctx, "the limits of keys failed", "request_id", requestID(ex.r), "error", err.Error())
	}
	return LimitReached(err)
}

// LimitReached converts an error of a key's limits to an API error, and any other error to nil.
func LimitReached(err error) *apierror.Error {
	if errors.Is(err, quota.ErrUnavailable) {
		return apierror.LimitsUnavailable()
	}
	if e, ok := errors.AsType[*quota.ExceededError](err); ok {
		return exceeded(e)
	}
	if e, ok := errors.AsType[*quota.ConcurrencyError](err); ok {
		if e.Wanted > e.Max {
			return apierror.TooManyChoices(e.Wanted, e.Max)
		}
		return apierror.KeyConcurrency(e.Max)
	}
	return nil
}

// exceeded returns the 429 error for a request that would exceed a limit of its key.
func exceeded(e *quota.ExceededError) *apierror.Error {
	limit := fmt.Sprintf("%d %s in a window of %s", e.Limit.Max, e.Limit.Unit, e.Limit.Window)
	sofar := fmt.Sprintf("used %d, requested %d", e.Used, e.Wanted)
	if e.Resets.IsZero() { // the request wants more than the whole limit
		never := apierror.RateLimited.Newf("The request needs about %d %s. That is more than this API key may ever use at once: its limit is %s.", e.Wanted, e.Limit.Unit, limit)
		never.RetryAfter, never.ShouldRetry = 0, new(bool) // false
		return never
	}
	if s := (quota.State{Limit: e.Limit, Used: e.Used}); s.Unit == quota.PlanShare {
		most, used, _ := s.Shown()
		limit, sofar = fmt.Sprintf("%g%% of the plan's window %s", most, s.Window), fmt.Sprintf("used %g%%", used)
	}
	wait := max(time.Second, time.Until(e.Resets))
	later := apierror.RateLimited.Newf("Rate limit reached for this API key: the limit is %s, %s. Please try again in %s.", limit, sofar, wait.Round(time.Second))
	if later.RetryAfter = wait; wait > apierror.MaxRetryAfter {
		later.ShouldRetry = new(bool) // false
	}
	return later
}

// setKeyLimitHeaders sets the headers about rate limits from the limits of the key. Of several limits
// on requests, or on tokens, they show the limit with the least left.
func (req *request) setKeyLimitHeaders(w http.ResponseWriter) {
	if req.key == nil || len(req.key.Limits) == 0 {
		return
	}
	tightest := make(map[quota.Unit]quota.State)
	for _, s := range req.limits.States() {
		if s.Unit == quota.PlanShare {
			continue // it is no number of requests
		}
		if other, ok := tightest[s.Unit]; !ok || s.Remaining() < other.Remaining() {
			tightest[s.Unit] = s
		}
	}
	setLimit := req.api.Limit
	if setLimit == nil {
		setLimit = api.SetLimit
	}
	for unit, s := range tightest {
		limit := api.Limit{Unit: unit, Max: s.Max, Remaining: s.Remaining(), Resets: s.Resets}
		if limit.Resets.IsZero() {
			limit.Resets = time.Now() // s.Resets is zero if nothing is used
		}
		setLimit(w.Header(), limit)
	}
}

// reserveHeader says that the Luna Reserve has served a request, since the plan is spent.
const reserveHeader = "X-Codex-Luna-Reserve"

// setLimitHeaders sets the headers about rate limits from the limits of the request's key. The limits of the
// ChatGPT plan are percentages. A client would take them for a number of requests in the usual headers, so they
// are in the headers with which the plan's own back end tells them: those of the meter of the choice's turn. It is
// called once, when the answer begins: before, the turn may be started again, with another login or the reserve.
func (ex *exchange) setLimitHeaders(c *choice) {
	header := ex.w.Header()
	c.run.req.setKeyLimitHeaders(ex.w)
	if c.turn.Place().Model == codexrpc.ReserveModel { // also if the request has named it
		header.Set(reserveHeader, "true")
	}
	_, meter := c.turn.Meter()
	if meter == nil {
		return
	}
	header.Set("X-Codex-Active-Limit", meter.ID)
	for i, w := range [...]*codexrpc.RateWindow{meter.Primary, meter.Secondary} {
		if w == nil || w.Over(time.Now()) {
			continue
		}
		prefix := [...]string{"X-Codex-Primary-", "X-Codex-Secondary-"}[i]
		header.Set(prefix+"Used-Percent", strconv.FormatFloat(w.UsedPercent, 'f', -1, 64))
		header.Set(prefix+"Window-Minutes", strconv.FormatInt(int64(w.Window/time.Minute), 10))
		header.Set(prefix+"Reset-At", strconv.FormatInt(max(0, w.ResetsAt.Unix()), 10))
	}
}
