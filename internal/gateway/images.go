package gateway

import (
	"context"
	"errors"

	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// Images fetches what requests name by an https URL instead of sending it. An
// *imagefetch.Fetcher is one.
type Images interface {
	Fetch(ctx context.Context, urls []string) (map[string]string, error)
}

// pictured is a decoded request that may name images elsewhere.
type pictured interface {
	RemoteImages() []string
	SetImages(data map[string]string) bool
	ImageParam(url string) string // the field that names it
}

// fetchImages puts the images in the place of their URLs. Without a fetcher
// they stay, and planning the request refuses them.
func (g *Gateway) fetchImages(ctx context.Context, request pictured) *openai.Error {
	if g.opts.Images == nil {
		return nil
	}
	urls := request.RemoteImages()
	if len(urls) == 0 {
		return nil
	}
	images, err := g.opts.Images.Fetch(ctx, urls)
	if failed, ok := errors.AsType[*imagefetch.Failure](err); ok {
		return openai.InvalidImageURL(request.ImageParam(failed.URL), failed.Error())
	}
	if err != nil {
		return openai.FromFailure(err)
	}
	if !request.SetImages(images) {
		return openai.InvalidImageURL(request.ImageParam(urls[0]), "The images at URLs are too large together; each counts as often as it is named.")
	}
	return nil
}
