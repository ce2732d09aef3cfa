package gateway

import (
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/images"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// GeneratePictures serves POST /v1/images/generations.
func (g *Gateway) GeneratePictures(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, g.imagesCodec(images.DecodeGeneration))
}

// EditPictures serves POST /v1/images/edits.
func (g *Gateway) EditPictures(w http.ResponseWriter, r *http.Request) {
	media := r.Header.Get("Content-Type")
	g.serve(w, r, g.imagesCodec(func(body []byte) (*images.Request, *apierror.Error) { return images.DecodeEdit(media, body) }))
}

func (g *Gateway) imagesCodec(decode func([]byte) (*images.Request, *apierror.Error)) codec {
	return codec{route: RouteImages, setLimitHeaders: setOpenAILimitHeaders, decode: func(body []byte) (decodedRequest, *apierror.Error) {
		decoded, apiErr := decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		decoded.Model = g.drivingModel(decoded.Model)
		return &imagesRequest{Request: decoded}, nil
	}}
}

// drivingModel returns the model that will call the picture tool for a request. An alias of the
// configuration stays as it is. If the client names no model, or a model that makes pictures, such
// as gpt-image-1, drivingModel returns the default model: a request cannot choose the model that
// makes the pictures.
func (g *Gateway) drivingModel(model string) string {
	if prompt.FindAlias(g.opts.Aliases, model) != nil {
		return model
	}
	for _, prefix := range []string{"gpt-image", "chatgpt-image", "dall-e"} {
		if strings.HasPrefix(model, prefix) {
			return prompt.DefaultModel
		}
	}
	if model == "" {
		return prompt.DefaultModel
	}
	return model
}

// imagesRequest is a decoded request for pictures.
type imagesRequest struct {
	*images.Request
}

// resolve encodes the pictures of a request that came as a form (multipart/form-data). The encoded
// bytes are charged to body.
func (q *imagesRequest) resolve(_ *exchange, body *claims.Claim) *apierror.Error {
	if size := q.Encoded(); size > 0 && !body.Grow(size) {
		return apierror.BodyMemory()
	}
	return q.Encode()
}

// newAnswer returns the answer to the request. The answer has only pictures, so reasoning and tool
// calls in the text are off.
func (q *imagesRequest) newAnswer(ex *exchange, _ *prompt.Plan, options *turn.Options) api.Answer {
	options.NoReasoning = true
	options.OutputMode, options.TextualTools = turn.ModeJSON, turn.TextualOff
	return images.NewEncoder(q.Meta(ex.arrived.Unix()))
}
