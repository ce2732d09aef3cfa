package messages

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// API is Anthropic's Messages API.
var API = api.API{
	Name:   "messages",
	Images: apierror.ParamMessages,
	Errors: &api.Errors{Encode: EncodeError, IDHeader: RequestIDHeader},
	Limit:  setLimit,
	Routes: []api.Route{
		{Path: "/v1/messages", Methods: api.Post, Turn: api.Decoder(Decode)},
		{Path: "/v1/messages/count_tokens", Methods: api.Post, Plain: countTokens},
		// Claude Code calls this route first, to see whether the server answers.
		{Path: "/api/hello", Methods: api.Get, Public: true, Uncounted: true, Static: new("")},
	},
	IsClient: func(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" },
	Models:   Models,
	Model: func(m api.Models, id string) ([]byte, bool) {
		found, ok := m.Find(id)
		if !ok && IsClaude(id) && m.Allows(id) {
			found, _ = m.Find(prompt.DefaultModel)
			found.Name, ok = id, true
		}
		return wirejson.Append(nil, newModelInfo(id, &found)), ok
	},
}

// setLimit sets Anthropic's headers about a limit on requests. Anthropic has no header for a limit on all
// tokens: it has one limit on input tokens and one on output tokens.
func setLimit(h http.Header, l api.Limit) {
	if l.Unit != quota.Requests {
		return
	}
	const prefix = "Anthropic-Ratelimit-Requests-"
	h.Set(prefix+"Limit", strconv.FormatInt(l.Max, 10))
	h.Set(prefix+"Remaining", strconv.FormatInt(l.Remaining, 10))
	h.Del(prefix + "Reset")
	if !l.Resets.IsZero() {
		h.Set(prefix+"Reset", l.Resets.UTC().Format(time.RFC3339))
	}
}

// Answer implements [api.Request].
func (r *Request) Answer(_ api.Start, options *turn.Options) api.Answer {
	id := rand.Text()
	options.IDSuffix = id[:api.SuffixLength]
	options.Items = true
	meta := r.Meta("msg_" + id)
	meta.CallsInText = options.OutputMode == turn.ModeXML
	return NewEncoder(meta)
}

// countTokens answers POST /v1/messages/count_tokens. Such a request does not wait for a slot for
// turns: Claude Code sends two dozen of them at the same time.
func countTokens(c api.Call) ([]byte, *apierror.Error) {
	var decoded *Request
	apiErr := c.Read(func(body []byte) (apiErr *apierror.Error) {
		decoded, apiErr = Decode(body)
		return apiErr
	})
	if apiErr != nil {
		return nil, apiErr
	}
	count, apiErr := c.Estimate(decoded.EstimateTokens)
	return decoded.tokenCount(count), apiErr
}

// tokenCount returns BetaMessageTokensCount. n are the tokens that the edits of context_management have left.
func (r *Request) tokenCount(n int) []byte {
	if r.management == nil {
		return fmt.Appendf(nil, `{"input_tokens":%d}`, n)
	}
	return fmt.Appendf(nil, `{"input_tokens":%d,"context_management":{"original_input_tokens":%d}}`, n, n+r.management.tokens)
}
