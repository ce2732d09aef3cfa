package gateway

import (
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// codec decodes the requests of one route.
type codec struct {
	route           Route
	decode          func(body []byte) (decodedRequest, *apierror.Error)
	setLimitHeaders limitHeaderFunc
}

// decodedRequest is a valid request of one of the APIs.
type decodedRequest interface {
	ModelID() string
	Choices() int
	EstimateTokens(sample int) int
	InstructionsContain(text string) bool
	DeclaresTools() bool
	// WithoutSearch removes the web search from the request, since the operator does not allow it.
	// It fails if the client needs the search.
	WithoutSearch() *apierror.Error
	RemoteImages() []string
	SetImages(data map[string]string) bool
	ImageParam(url string) string // the name of the request's field that has this URL
	Pixels() int64                // number of pixels of the largest image
	CheckPixels() *field.Error    // fails if all images together have too many pixels
	ToolBytes() int64             // size of all tools together
	CheckTools() *field.Error     // fails if all tools together are too large
	// resolve completes the request before it is planned. For example, it adds the stored responses
	// and items to which the request refers. It charges the memory for that to body.
	resolve(ex *exchange, body *claims.Claim) *apierror.Error
	Plan(prompt.Options) (*prompt.Plan, *apierror.Error)
	// newAnswer returns the answer, which encodes the outputs of the turns. newAnswer also sets the
	// fields of options that this kind of answer needs.
	newAnswer(ex *exchange, plan *prompt.Plan, options *turn.Options) api.Answer
}

// selfContained is embedded in requests that contain their whole conversation.
type selfContained struct{}

func (selfContained) resolve(*exchange, *claims.Claim) *apierror.Error { return nil }

// request has all that the turns of a request and its answer need.
type request struct {
	receivedRequest
	plan      *prompt.Plan // its large parts are dropped when no further turn will be started
	options   turn.Options // of the first choice; each other choice has a copy
	answer    api.Answer
	form      api.Form // of answer
	kept      *responseAnswer // what the server keeps of the answer; nil: nothing
	overrides []string        // see [Gateway.toolOverrides]

	input   int64  // estimated tokens of the input of each turn
	endCopy func() // called when the copies of the body are gone, so that another large body can be copied; further calls do nothing
}
