package responses

import (
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// API is OpenAI's Responses API, without the routes about what is stored.
var API = api.API{
	Name:   "responses",
	Images: "input",
	Routes: []api.Route{
		{Path: "/v1/responses", Methods: api.Post, Turn: decoder(Decode), Socket: decoder(DecodeCreate)},
		// Counting occupies a slot for turns, since it can take as long as a turn.
		{Path: "/v1/responses/input_tokens", Methods: api.Post, Turn: decoder(Decode), Count: InputTokens},
		{Path: "/v1/responses/compact", Methods: api.Post, NoBody: true, Plain: api.Refusal(apierror.NoCompaction)},
	},
}

func decoder(decode func([]byte) (*Request, *apierror.Error)) api.Turn {
	return func(_ api.Server, _ *http.Request, body []byte) (api.Request, *apierror.Error) {
		decoded, apiErr := decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		decoded.Suffix = responseid.NewSuffix(time.Now())
		return decoded, nil
	}
}

// ResponseRequest returns the request itself, for the gateway, which stores its response.
func (r *Request) ResponseRequest() *Request { return r }

// Answer implements [api.Request].
func (r *Request) Answer(start api.Start, options *turn.Options) api.Answer {
	options.Items = true
	options.IDSuffix = r.Suffix[len(r.Suffix)-api.SuffixLength:]
	meta := r.Meta(r.Suffix)
	meta.Created = time.Now().Unix()
	meta.Now = func() int64 { return time.Now().Unix() }
	meta.CallsInText = options.OutputMode == turn.ModeXML
	meta.Keep = start.Keep
	return NewEncoder(meta)
}

// Meta returns the data that the events and the Response share.
func (s *Encoder) Meta() Meta { return s.meta }
