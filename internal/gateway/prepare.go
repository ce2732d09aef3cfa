package gateway

import (
	"context"
	"errors"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
)

// prepare resolves, checks and plans a request, so that its turns can start. It fetches data that
// needs memory, so it is called only after the turns have their slots.
func (g *Gateway) prepare(ex *exchange, received receivedRequest, decoded decodedRequest) (*request, *apierror.Error) {
	if apiErr := decoded.resolve(ex, received.body); apiErr != nil {
		return nil, apiErr
	}
	if apiErr := g.fetchImages(ex.ctx, received.body, decoded); apiErr != nil {
		return nil, apiErr
	}
	if f := decoded.CheckPixels(); f != nil {
		return nil, f.In(conversationField(received.route)).APIError()
	}
	if f := decoded.CheckTools(); f != nil {
		return nil, f.APIError()
	}
	input, apiErr := g.countTurns(ex, received, decoded)
	if apiErr != nil {
		return nil, apiErr
	}
	apiErr = g.claimMemory(ex, received.body.Size(), int64(decoded.Choices()), decoded.ToolBytes(), decoded.Pixels())
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
	if req.options, apiErr = g.opts.turnOptions(ex.r, decoded, plan); apiErr != nil {
		return nil, apiErr
	}
	req.answer = decoded.newAnswer(ex, plan, &req.options)
	req.form = req.answer.Form()
	if q, ok := decoded.(*responsesRequest); ok {
		req.kept = q.kept
	}
	return req, nil
}

// conversationField returns the name of the request field that has the conversation. For requests
// for pictures, it returns the name of the field that has the images.
func conversationField(route Route) string {
	switch route {
	case RouteResponses:
		return "input"
	case RouteImages:
		return "image"
	}
	return apierror.ParamMessages
}

// waitToCopy waits until a body of this size may be copied. The caller calls endCopy when the
// copies are gone, so that another large body can be copied. The end of the exchange calls endCopy,
// too.
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

// fetchImages replaces the URLs of images by the images. Without a fetcher the URLs stay, and Plan
// refuses them.
func (g *Gateway) fetchImages(ctx context.Context, body *claims.Claim, request decodedRequest) *apierror.Error {
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
