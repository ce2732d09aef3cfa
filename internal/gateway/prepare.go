package gateway

import (
	"context"
	"errors"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// prepare resolves, checks and plans a request, so that its turns can start. It fetches data that
// needs memory, so it is called only after the turns have their slots.
func (g *Gateway) prepare(ex *exchange, received receivedRequest, decoded api.Request) (*request, *apierror.Error) {
	if apiErr := g.resolve(ex, received, decoded); apiErr != nil {
		return nil, apiErr
	}
	asked := decoded.Asked()
	if apiErr := g.fetchImages(ex.ctx, received.body, asked); apiErr != nil {
		return nil, apiErr
	}
	if f := asked.CheckPixels(); f != nil {
		return nil, f.In(received.api.Images).APIError()
	}
	if f := asked.CheckTools(); f != nil {
		return nil, f.APIError()
	}
	input, apiErr := g.countTurns(ex, received, asked)
	if apiErr != nil {
		return nil, apiErr
	}
	apiErr = g.claimMemory(ex, received.body.Size(), int64(asked.Choices()), asked.ToolBytes(), asked.Pixels())
	if apiErr != nil {
		return nil, apiErr
	}
	endCopy, apiErr := g.waitToCopy(ex, received.body.Size())
	if apiErr != nil {
		return nil, apiErr
	}
	var plan *prompt.Plan
	g.compute(ex, received.body.Size(), func() { plan, apiErr = decoded.Plan(g.planOptions) })
	if apiErr != nil {
		return nil, apiErr
	}
	req := &ex.prealloc.request
	*req = request{
		receivedRequest: received, plan: plan, overrides: g.toolOverrides(ex.r, plan), input: input, endCopy: endCopy,
	}
	if req.options, apiErr = g.opts.turnOptions(ex.r, asked, plan); apiErr != nil {
		return nil, apiErr
	}
	start := api.Start{Plan: plan, Arrived: ex.arrived, Place: ex.prealloc.running.modelAndVersion}
	req.answer = received.kept.answer(decoded, start, &req.options)
	req.form = req.answer.Form()
	return req, nil
}

type request struct {
	receivedRequest
	plan      *prompt.Plan // its large parts are dropped when no further turn will be started
	options   turn.Options // of the first choice; each other choice has a copy
	answer    api.Answer
	form      api.Form // of answer
	overrides []string // see [Gateway.toolOverrides]

	input   int64  // estimated tokens of the input of each turn
	endCopy func() // called when the copies of the body are gone, so that another large body can be copied; further calls do nothing
}

// apiError converts a failure of the request to the error that its client gets.
func (req *request) apiError(failure error) *apierror.Error {
	return req.answer.NameFields(failures.APIError(failure))
}

// resolve completes a request: it encodes its content, or adds the stored responses and items to
// which the request refers. It charges the memory for that to the body.
func (g *Gateway) resolve(ex *exchange, received receivedRequest, decoded api.Request) *apierror.Error {
	if q, ok := decoded.(api.EncodedRequest); ok {
		if size := q.Encoded(); size > 0 && !received.body.Grow(size) {
			return apierror.BodyMemory()
		}
		return q.Encode()
	}
	if received.kept != nil {
		return received.kept.resolve(ex, received.body)
	}
	return nil
}

// waitToCopy waits until a body of this size may be copied. The caller, or the end of the exchange,
// calls endCopy when the copies are gone, so that another large body can be copied.
func (g *Gateway) waitToCopy(ex *exchange, size int64) (endCopy func(), apiErr *apierror.Error) {
	endCopy, err := g.bodies.WaitToCopy(ex.ctx, ex.user, size)
	switch {
	case errors.Is(err, reqbody.ErrCopyWait):
		return nil, apierror.BodyMemory()
	case err != nil:
		return nil, failures.APIError(err)
	}
	ex.releaseOnClose(releaseFunc(endCopy))
	return endCopy, nil
}

// Images fetches the images that requests name by an https URL. *imagefetch.Fetcher implements it.
type Images interface {
	Fetch(ctx context.Context, urls []string, grow func(n int64) bool) (map[string]string, error)
}

// fetchImages replaces URLs by their images. Without a fetcher they stay, and Plan refuses them.
func (g *Gateway) fetchImages(ctx context.Context, body *claims.Claim, request *prompt.Conversation) *apierror.Error {
	if g.opts.Images == nil {
		return nil
	}
	urls := request.RemoteImages()
	if len(urls) == 0 {
		return nil
	}
	images, err := g.opts.Images.Fetch(ctx, urls, body.Grow)
	if failed, ok := errors.AsType[*imagefetch.Failure](err); ok {
		return apierror.InvalidImageURL(request.ImageParam(failed.URL), failed.Error())
	}
	if errors.Is(err, imagefetch.ErrNoMemory) {
		return apierror.BodyMemory()
	}
	if err != nil {
		return failures.APIError(err)
	}
	if !request.SetImages(images) {
		return apierror.InvalidImageURL(request.ImageParam(urls[0]), "The images at URLs are too large together; each counts as often as it is named.")
	}
	return nil
}
