package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// shortening makes the conversation of a request fit the model's window. Before the last turn, which gives the
// client its answer, other turns summarise the conversation. Usually it is one turn, which goes on in the kept
// thread of the conversation, so the provider has nearly all of its input in the cache. If the
// conversation does not even fit for that, turns before summarise its first part, again and again. A nil
// *shortening shortens nothing.
type shortening struct {
	g       *Gateway
	decoded api.Request
	above   int                 // the conversation is shortened if it has more tokens
	fits    int                 // how many tokens the conversation of a turn that summarises may have
	alone   bool                // the answer is itself a summary
	chain   *conversation.Chain // of the conversation as the client sent it, if the client does not get the summary; else nil
	begun   bool                // false: the conversation is shortened only if the model finds it too long
	kept    int                 // an estimate of its tokens in the kept thread in which the first turn goes on; 0: there is none, or they do not fit

	tokens  int    // an estimate of the conversation's tokens at the last turn
	covers  int    // how many of its messages the current turn summarises; 0: it is the last turn
	summary string // the result of the current turn, if it is not the last one
	whole   bool   // the whole conversation was summarised
	turns   int    // the turns so far
	shrunk  int    // how often fits was reduced
}

const (
	// fullShare is the share of the window that a conversation may fill: the tokens are an estimate, and
	// the answer needs room, too.
	fullShare = 0.85
	// summaryShare is the same for a turn that summarises. It is more, so that the turn can go on in the thread of
	// a conversation that has just become too long.
	summaryShare = 0.92
	// partShare is the share of fits that a first part of a conversation may have.
	partShare = 0.9
	// maxSummaries bounds the summaries for one request; the largest body of a request needs some 40.
	maxSummaries = 48
	// maxShrinks bounds how often a shorter conversation is tried after the model found one too long.
	maxShrinks = 3
)

// shortenedHeader says that the model got summaries in place of parts of the conversation.
const shortenedHeader = "X-Codex-Shortened"

// mayShorten reports whether a conversation is shortened if it does not fit in the model's window.
func (g *Gateway) mayShorten(asked *prompt.Conversation) bool {
	wants := &asked.Shortening
	return wants.Summary || wants.Above > 0 || wants.Hidden && g.opts.Shorten && asked.Choices() == 1
}

// plan makes the plan of the first turn of a request, and finds out whether further turns may be needed.
func (g *Gateway) plan(ex *exchange, req *request, decoded api.Request) (apiErr *apierror.Error) {
	asked := decoded.Asked()
	wants := &asked.Shortening
	if g.mayShorten(asked) {
		req.shorter = g.newShortening(ex.ctx, decoded)
	}
	if wants.Summary {
		req.sealed = asked.SealedSummary()
	}
	s := req.shorter
	if s != nil && s.begun && !wants.Hidden {
		return s.next(ex, req)
	}
	g.compute(ex, req.body.Size(), func() { req.plan, apiErr = decoded.Plan(g.planOptions) })
	if apiErr != nil || s == nil || !wants.Hidden {
		return apiErr
	}
	if s.begun = !s.fitsKept(ex, req); s.begun {
		return s.next(ex, req)
	}
	return nil
}

// newShortening returns the shortening of a request that wants it, or nil if its conversation fits for certain.
func (g *Gateway) newShortening(ctx context.Context, decoded api.Request) *shortening {
	asked := decoded.Asked()
	wants := &asked.Shortening
	s := &shortening{g: g, decoded: decoded, above: cmp.Or(wants.Above, math.MaxInt), fits: math.MaxInt, tokens: asked.EstimateTokens(prompt.SampleBytes)}
	codexModel, _ := asked.ResolveModel(g.planOptions)
	if tokens, _ := g.window(ctx, codexModel); tokens > 0 {
		window := float64(tokens)
		s.above, s.fits = min(s.above, int(fullShare*window)), int(summaryShare*window)
	}
	wants.Summary = wants.Summary || wants.Pause && s.tokens > s.above
	if s.alone = wants.Summary; s.alone {
		s.above = s.fits
	}
	if s.begun = s.tokens > s.above; s.tokens <= s.above/2 {
		return nil
	}
	return s
}

// fitsKept reports whether the conversation fits. Of one that goes on in a kept thread, in which it may have been
// shortened before, the provider has counted the tokens. It computes s.chain and s.kept.
func (s *shortening) fitsKept(ex *exchange, req *request) bool {
	request := conversation.Request{Plan: req.plan, Host: ex.r.Host, User: ex.user}
	s.g.compute(ex, req.body.Size(), func() { s.chain = s.g.opener.Chain(ex.lease, &request) })
	if s.chain == nil {
		return !s.begun
	}
	tokens, found := s.g.opener.Kept(ex.ctx, ex.lease, req.plan, s.chain)
	if found {
		s.g.opts.Logger.LogAttrs(ex.ctx, slog.LevelDebug, "the conversation has a kept thread", slog.Int("tokens", tokens))
	}
	if found && tokens <= s.fits {
		s.kept = tokens
	}
	return found && tokens <= s.above || !found && !s.begun
}

// stands returns the chain of the conversation for which the thread of the current turn stands, if that is
// not the conversation in its plan.
func (s *shortening) stands() *conversation.Chain {
	if s == nil || !s.whole {
		return nil
	}
	return s.chain
}

// next makes the plan of the next turn.
func (s *shortening) next(ex *exchange, req *request) (apiErr *apierror.Error) {
	asked := s.decoded.Asked()
	tokens := asked.EstimateTokens(prompt.SampleBytes)
	if s.turns == 0 && s.kept > 0 {
		tokens = s.kept
	}
	if s.covers = 0; tokens > s.fits {
		s.covers = asked.Leading(partShare * float64(s.fits) / float64(tokens))
	} else if !s.alone && !s.whole {
		s.covers = len(asked.Messages)
	}
	if s.turns+int(float64(tokens)/(partShare*float64(s.fits))) >= maxSummaries || tokens > s.fits && (s.covers == 0 || s.summary != "" && tokens >= s.tokens) {
		s.shrunk = maxShrinks // this error is final
		return apierror.ContextTooLong.Newf("The conversation has about %d tokens, and summaries do not make it fit the model's window: it or a part of it is too long for them.", tokens)
	}
	s.tokens, s.turns, s.summary, req.input = tokens, s.turns+1, "", int64(min(tokens, s.fits))
	messages, wants := asked.Messages, asked.Shortening
	if s.covers > 0 {
		asked.Messages, asked.Shortening.Summary = messages[:s.covers], true
	}
	s.g.compute(ex, req.body.Size(), func() { req.plan, apiErr = s.decoded.Plan(s.g.planOptions) })
	asked.Messages, asked.Shortening = messages, wants
	return apiErr
}

// goesOn reports whether another turn follows the current one, which has ended. failure is why it failed, and
// err is why its client did not get the answer.
func (s *shortening) goesOn(c *choice, failure, err error) bool {
	switch {
	case s == nil || err != nil:
		return false
	case failure == nil:
		return s.summary != ""
	case errors.Is(failure, turn.ErrNoSummary): // the answer does without, if the conversation fits
		return !s.alone && s.covers == len(s.decoded.Asked().Messages) && s.shrunk == 0
	}
	tooLong := failures.APIError(failure).Code == apierror.CodeContextLength
	if !tooLong || !c.firstOutput.IsZero() || s.shrunk == maxShrinks {
		return false
	}
	asked := s.decoded.Asked()
	if wants := &asked.Shortening; wants.Pause && !wants.Summary && !s.whole { // the answer is a summary after all
		wants.Summary, s.alone, c.run.req.sealed = true, true, asked.SealedSummary()
	}
	s.begun, s.shrunk, s.summary, s.covers = true, s.shrunk+1, "", 0
	s.tokens = asked.EstimateTokens(prompt.SampleBytes)
	s.fits = min(s.fits, s.tokens) * 3 / 4
	return true
}

// runNext starts and runs the turn after one that was not the last.
func (run *runningRequest) runNext(ctx context.Context, c *choice) (failure, err error) {
	s, asked := run.req.shorter, run.req.shorter.decoded.Asked()
	used, estimated := c.tokens()
	c.usedBefore, c.priceBefore = turn.End{Usage: used, Estimated: estimated}, c.priceBefore.Add(c.machine.Price())
	c.machine.Reset(c.options) // the usage is counted now
	c.turn.Close(false)
	run.ex.keepRequest()
	var content []byte
	all := s.covers == len(asked.Messages)
	if s.summary != "" {
		content = asked.Shorten(s.covers, s.summary)
	}
	if all && !s.alone {
		s.whole = true // even without a summary
		if failure, err = run.writeSummary(c, content); failure != nil || err != nil {
			return failure, err
		}
	}
	var apiErr *apierror.Error
	if run.req.endCopy, apiErr = run.g.waitToCopy(run.ex, run.req.body.Size()); apiErr != nil {
		return apiErr, nil
	}
	if apiErr = s.next(run.ex, run.req); apiErr != nil {
		return apiErr, nil
	}
	if c.grant.LimitsTokens() && !c.grant.Raise(used.InputTokens+used.OutputTokens+run.req.input) {
		return apierror.RateLimited.New("The conversation has to be summarised before it is answered, and the tokens of this API key do not suffice for that."), nil
	}
	run.ex.w.Header().Set(shortenedHeader, "true") // in vain if the answer has begun
	options, apiErr := run.g.opts.turnOptions(run.ex.r, asked, run.req.plan)
	if apiErr != nil {
		return apiErr, nil
	}
	options.Choice, options.Budget, options.IDSuffix, options.Items = c.options.Choice, c.options.Budget, c.options.IDSuffix, c.options.Items
	*c.options = options
	previous := c.turn
	failure = run.startChoice(ctx, c)
	if run.req.endCopy(); failure != nil {
		c.turn = cmp.Or(c.turn, previous) // closing it again does nothing
		return failure, nil
	}
	return c.turn.Run(ctx)
}

// writeSummary gives the client the summary of the whole conversation, unless the API has no form for that. If
// the model wrote no summary, the client gets one without a text.
func (run *runningRequest) writeSummary(c *choice, content []byte) (failure, err error) {
	s := run.req.shorter
	if s.summary != "" {
		run.g.opts.Logger.LogAttrs(run.ex.ctx, slog.LevelInfo, "a conversation was shortened by a summary",
			slog.String("request_id", requestID(run.ex.r)), slog.String("model", run.req.plan.Model), slog.Int("tokens", s.tokens))
	}
	if s.decoded.Asked().Shortening.Hidden {
		return nil, nil
	}
	out := turn.Output{Kind: turn.OutputSummary, Text: s.summary, End: &turn.End{Usage: c.usedBefore.Usage, Estimated: c.usedBefore.Estimated}}
	if s.summary != "" {
		if out.Name, failure = run.seal(content); failure != nil {
			return failure, nil
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.err == nil {
		run.err = run.responder.write(c.index, []turn.Output{out})
	}
	return nil, run.err
}

func (run *runningRequest) seal(content []byte) (string, error) {
	sealed, err := run.g.opts.Sealer.Seal(run.ex.ctx, run.ex.user, content)
	if err != nil {
		run.g.opts.Logger.WarnContext(run.ex.ctx, "a summary could not be sealed", "request_id", requestID(run.ex.r), "error", err)
		return "", apierror.StoreUnavailable()
	}
	return sealed, nil
}

// shorten returns the outputs of a turn for the client: a summary with what is sealed of it, and the usage of
// all turns. It keeps the summary of a turn that is not the last one.
func (run *runningRequest) shorten(c *choice, outputs []turn.Output) ([]turn.Output, error) {
	if outputs[0].Kind == turn.OutputSummary {
		if s := run.req.shorter; s != nil && s.covers > 0 {
			s.summary = outputs[0].Text
			return nil, nil
		}
		sealed, err := run.seal(run.req.sealed(outputs[0].Text))
		if err != nil {
			return nil, run.req.apiError(err)
		}
		outputs[0].Name = sealed
	}
	if last := &outputs[len(outputs)-1]; last.Kind == turn.OutputFinish && c.usedBefore != (turn.End{}) {
		end := *last.End
		end.Usage, end.Estimated = end.Usage.Add(c.usedBefore.Usage), end.Estimated || c.usedBefore.Estimated
		last.End = &end
	}
	return outputs, nil
}

func (g *Gateway) openSummaries(ex *exchange, asked *prompt.Conversation) *apierror.Error {
	return asked.OpenSummaries(func(sealed string) ([]byte, error) {
		opened, err := g.opts.Sealer.Open(ex.ctx, ex.user, sealed)
		if err != nil && !errors.Is(err, seal.ErrUnreadable) {
			g.opts.Logger.WarnContext(ex.ctx, "a summary could not be opened", "request_id", requestID(ex.r), "error", err)
		}
		return opened, err
	})
}
