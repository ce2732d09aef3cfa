package responses

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// API is OpenAI's Responses API, without the routes about what is stored.
var API = api.API{
	Name:   "responses",
	Images: "input",
	Routes: []api.Route{
		{Path: "/v1/responses", Methods: api.Post, Turn: api.Decoder(Decode), Socket: api.Decoder(DecodeCreate)},
		// Counting occupies a slot for turns, since it can take as long as a turn.
		{Path: "/v1/responses/input_tokens", Methods: api.Post, Turn: api.Decoder(Decode), Count: InputTokens},
		{Path: "/v1/responses/compact", Methods: api.Post, Turn: api.Decoder(DecodeCompact)},
		{Path: "/backend-api/wham/usage", Methods: api.Get, Plain: planUsage},
		{Path: "/backend-api/wham/accounts/check", Methods: api.Get, Plain: api.Document([]byte(backendAccount))},
	},
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
