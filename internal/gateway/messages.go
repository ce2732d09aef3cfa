package gateway

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Messages serves POST /v1/messages of Anthropic's API.
func (g *Gateway) Messages(w http.ResponseWriter, r *http.Request) { g.serve(w, r, messagesCodec) }

var messagesCodec = codec{route: RouteMessages, setLimitHeaders: setAnthropicLimitHeaders, decode: func(body []byte) (decodedRequest, *apierror.Error) {
	decoded, apiErr := messages.Decode(body)
	if apiErr != nil {
		return nil, apiErr
	}
	return &messagesRequest{Request: decoded}, nil
}}

// setAnthropicLimitHeaders sets Anthropic's headers about a limit of requests. It sets no headers
// about tokens: in Anthropic's API, input and output have separate limits.
func setAnthropicLimitHeaders(h http.Header, l rateLimit) {
	if l.unit != quota.Requests {
		return
	}
	const prefix = "Anthropic-Ratelimit-Requests-"
	h.Set(prefix+"Limit", strconv.FormatInt(l.max, 10))
	h.Set(prefix+"Remaining", strconv.FormatInt(l.remaining, 10))
	h.Del(prefix + "Reset")
	if !l.resets.IsZero() {
		h.Set(prefix+"Reset", l.resets.UTC().Format(time.RFC3339))
	}
}

// messagesRequest is a decoded request for a message.
type messagesRequest struct {
	*messages.Request
	selfContained
}

// newAnswer returns the answer to the request.
func (q *messagesRequest) newAnswer(_ *exchange, _ *prompt.Plan, options *turn.Options) api.Answer {
	id := rand.Text()
	options.IDSuffix = id[:idSuffixLength]
	options.Items = true
	meta := q.Meta("msg_" + id)
	meta.CallsInText = options.OutputMode == turn.ModeXML
	return messages.NewEncoder(meta)
}

// CountTokens serves POST /v1/messages/count_tokens. It does not wait for a slot for turns: Claude
// Code sends two dozen such requests at the same time.
func (g *Gateway) CountTokens(w http.ResponseWriter, r *http.Request) {
	g.serveTurnless(w, r, func(*turnlessRequest) ([]byte, *apierror.Error) {
		ex := g.newExchange(w, r)
		defer ex.close()
		body, apiErr := g.countMessage(ex)
		return body, ex.preferExitError(apiErr)
	})
}

func (g *Gateway) countMessage(ex *exchange) ([]byte, *apierror.Error) {
	if _, apiErr := g.keyOf(ex.r); apiErr != nil {
		return nil, apiErr
	}
	body, claim, apiErr := g.readBody(ex)
	if apiErr != nil {
		return nil, apiErr
	}
	var decoded *messages.Request
	g.compute(ex, int64(len(body)), func() { decoded, apiErr = messages.Decode(body) })
	if apiErr != nil {
		return nil, apiErr
	}
	count, apiErr := g.countTokens(ex, claim, func(func() error) (int, error) { return decoded.EstimateTokens(prompt.SampleBytes), nil })
	return messages.TokenCount(count), apiErr
}

// Hello serves HEAD /api/hello, with which Claude Code checks that the server runs.
func (g *Gateway) Hello(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
