package gateway

import (
	"context"
	"errors"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
)

// prepare makes all that the turns of a request need, x.req. It is called once they may
// run, since what it fetches takes memory.
func (g *Gateway) prepare(x *exchange, route Route, decoded decodedRequest) *apierror.Error {
	if apiErr := decoded.resolve(x); apiErr != nil {
		return apiErr
	}
	if apiErr := g.fetchImages(x, decoded); apiErr != nil {
		return apiErr
	}
	if apiErr := g.reserveInput(x, decoded); apiErr != nil {
		return apiErr
	}
	if f := decoded.CheckPixels(); f != nil {
		return f.In(conversationField(route)).APIError()
	}
	if f := decoded.CheckTools(); f != nil {
		return f.APIError()
	}
	if apiErr := g.claimMemory(x, int64(decoded.Choices()), decoded.ToolBytes(), decoded.Pixels()); apiErr != nil {
		return apiErr
	}
	if apiErr := g.waitToCopy(x); apiErr != nil {
		return apiErr
	}
	var plan *prompt.Plan
	var apiErr *apierror.Error
	g.compute(x, x.body.Size(), func() {
		plan, apiErr = decoded.Plan(g.planning)
	})
	if apiErr != nil {
		return apiErr
	}
	req := &x.req
	*req = request{route: route, plan: plan, model: plan.Model, stream: plan.Stream, toolOverrides: g.toolOverrides(x.r, plan)}
	if req.options, apiErr = g.opts.turnOptions(x.r, decoded, plan); apiErr != nil {
		return apiErr
	}
	req.form = decoded.form(x, plan, &req.options)
	return nil
}

// conversationField returns the field of a request that has its conversation.
func conversationField(route Route) string {
	if route == RouteResponses {
		return "input"
	}
	return apierror.ParamMessages
}

// waitToCopy waits until the body of a request may be copied.
func (g *Gateway) waitToCopy(x *exchange) *apierror.Error {
	copied, err := g.bodies.WaitToCopy(x.ctx, x.user, x.body.Size())
	switch {
	case errors.Is(err, reqbody.ErrCopyWait):
		return apierror.BodyMemory()
	case err != nil:
		return failures.APIError(err)
	}
	x.copied = copied
	x.holds(releaseFunc(copied))
	return nil
}

// Images fetches what requests name by an https URL instead of sending it. An
// *imagefetch.Fetcher is one.
type Images interface {
	Fetch(ctx context.Context, urls []string, grow func(n int64) bool) (map[string]string, error)
}

// fetchImages replaces the URLs of images by the images. Without a fetcher they
// stay, and Plan refuses them.
func (g *Gateway) fetchImages(x *exchange, request decodedRequest) *apierror.Error {
	if g.opts.Images == nil {
		return nil
	}
	urls := request.RemoteImages()
	if len(urls) == 0 {
		return nil
	}
	images, err := g.opts.Images.Fetch(x.ctx, urls, x.body.Grow)
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
