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
)

// prepare resolves, checks and plans a request, so that its turns can start. It is called only after the
// turns have their slots, since the data that it fetches need memory.
func (g *Gateway) prepare(ex *exchange, req *request, decoded api.Request) (apiErr *apierror.Error) {
	if apiErr = g.resolve(ex, req, decoded); apiErr != nil {
		return apiErr
	}
	asked := decoded.Asked()
	if apiErr = g.fetchImages(ex.ctx, req.body, asked); apiErr != nil {
		return apiErr
	}
	if f := asked.CheckPixels(); f != nil {
		return f.In(req.api.Images).APIError()
	}
	if f := asked.CheckTools(); f != nil {
		return f.APIError()
	}
	if apiErr = g.countTurns(ex, req, asked); apiErr != nil {
		return apiErr
	}
	if apiErr = g.checkWindow(ex, req, asked); apiErr != nil {
		return apiErr
	}
	apiErr = g.claimMemory(ex, req.body.Size(), int64(asked.Choices()), asked.ToolBytes(), asked.Pixels())
	if apiErr != nil {
		return apiErr
	}
	if req.endCopy, apiErr = g.waitToCopy(ex, req.body.Size()); apiErr != nil {
		return apiErr
	}
	if apiErr = g.plan(ex, req, decoded); apiErr != nil {
		return apiErr
	}
	req.overrides = g.toolOverrides(ex.r, req.plan)
	if req.options, apiErr = g.opts.turnOptions(ex.r, asked, req.plan); apiErr != nil {
		return apiErr
	}
	start := api.Start{Plan: req.plan, Arrived: ex.arrived, Place: ex.prealloc.running.modelAndVersion}
	req.answer = req.kept.answer(decoded, start, &req.options)
	req.form = req.answer.Form()
	return nil
}

func (req *request) apiError(failure error) *apierror.Error {
	return req.answer.NameFields(failures.APIError(failure))
}

// resolve completes a request: it encodes content that is not encoded yet, or adds the stored responses
// and items to which the request refers, and opens summaries. The memory for that is added to the claim of the body.
func (g *Gateway) resolve(ex *exchange, req *request, decoded api.Request) *apierror.Error {
	if q, ok := decoded.(api.EncodedRequest); ok {
		if size := q.Encoded(); size > 0 && !req.body.Grow(size) {
			return apierror.BodyMemory()
		}
		return q.Encode()
	}
	if req.kept != nil {
		if apiErr := req.kept.resolve(ex, req.body); apiErr != nil {
			return apiErr
		}
	}
	return g.openSummaries(ex, decoded.Asked())
}

// waitToCopy waits until a body of this size may be copied. The caller calls endCopy when the copies are
// gone, so that another large body can be copied. The end of the exchange calls endCopy, too.
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

// fetchImages replaces the URLs of images by the images. Without Options.Images, a URL makes Plan fail.
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
