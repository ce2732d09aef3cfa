// Package api is the border between the gateway, which runs turns, and the APIs of clients. Each API
// is a package that exports an [API].
package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// API is an API of clients.
type API struct {
	Name   string // in logs, metrics and the usage
	Option string // the option of the handler that turns the API on; empty: it is always on
	Routes []Route
	Errors *Errors                  // nil: the Errors of the API whose IsClient recognizes the request
	Limit  func(http.Header, Limit) // sets the headers about a limit; nil: SetLimit
	Images string                   // the name of the request field that has the images

	// IsClient is called for requests to routes that several APIs have. It reports whether the request
	// comes from a client of this API. Nil: none does. A client that no API recognizes counts as OpenAI's.
	IsClient func(*http.Request) bool
	// Models and Model return the bodies of GET /v1/models and GET /v1/models/{id} for clients of the
	// API. ok is false if there is no such model. Nil: clients do not use these routes.
	Models func(m Models, r *http.Request) ([]byte, *apierror.Error)
	Model  func(m Models, id string) (body []byte, ok bool)
}

// Errors is the form of an API's errors.
type Errors struct {
	Encode   apierror.Encoder
	IDHeader string // the header with the request's id in every answer; empty: none
}

// Route is a route of an API. One of Turn, Plain and Static says how its requests are answered.
type Route struct {
	Path      string   // a * stands for a segment that is not empty
	Methods   []string // the first one is the canonical method
	Name      string   // in metrics; empty: the name of the API
	Public    bool     // requests need neither an API key nor an allowed host
	Quiet     bool     // only requests that fail are counted in metrics
	Uncounted bool     // requests are not counted at all
	NoBody    bool     // even the body of a POST is skipped

	Turn   Turn
	Socket Turn                    // for the messages of a WebSocket at this path; nil: there are no WebSockets
	Count  func(tokens int) []byte // if the route only counts the tokens of requests: returns the body with the count
	Plain  Plain
	Static *string // a text that answers each request
}

// The methods of routes.
var (
	Get  = []string{http.MethodGet, http.MethodHead}
	Post = []string{http.MethodPost}
)

// GetAnd returns the methods in Get, followed by the given methods.
func GetAnd(methods ...string) []string { return append(Get[:2:2], methods...) }

// Turn decodes and checks a request that the model answers. The request refers to parts of the body.
type Turn func(Server, *http.Request, []byte) (Request, *apierror.Error)

// Decoder returns a Turn that needs only the body.
func Decoder[R Request](decode func(body []byte) (R, *apierror.Error)) Turn {
	return func(_ Server, _ *http.Request, body []byte) (Request, *apierror.Error) {
		decoded, apiErr := decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		return decoded, nil
	}
}

// Server answers the questions of an API about the server.
type Server interface {
	// HasAlias reports whether the operator has set an alias with this name.
	HasAlias(model string) bool
}

// Request is a valid request of an API that the model answers.
type Request interface {
	// Asked returns what all APIs have in common.
	Asked() *prompt.Conversation
	// WithoutSearch removes web searches, which the operator forbids, or fails if the client needs them.
	WithoutSearch() *apierror.Error
	Plan(prompt.Options) (*prompt.Plan, *apierror.Error)
	// Answer returns the encoder of the turns' outputs. It also sets the options that the encoder needs.
	Answer(Start, *turn.Options) Answer
}

// EncodedRequest is a [Request] with content that has to be encoded before it is planned.
type EncodedRequest interface {
	Request
	Encoded() int64          // how many bytes Encode needs
	Encode() *apierror.Error // encodes the content
}

// Start has what an answer needs to know about its request.
type Start struct {
	Plan    *prompt.Plan
	Arrived time.Time // when the request came
	// Place returns Codex's name of the model and the release of Codex, once the first turn has started.
	Place func() (model, version string)
	// Keep is called with a whole answer, before the client can read its end, since the client's next
	// request can refer to the answer. Keep returns false if the request wants the answer stored and the
	// store failed. Nil: nothing is kept.
	Keep func(Record) bool
}

// Record is an answer for a store.
type Record struct {
	Response json.RawMessage   // as the client got it
	Output   []json.RawMessage // the items of the output; reasoning has its encrypted content, for later requests
	Well     bool              // the turn has ended without an error; the response may be incomplete
}

// SuffixLength is how many random characters are at the end of a call's id. Each character has 5 random
// bits. Eight characters are enough to tell the turns of a conversation apart.
const SuffixLength = 8

// Plain returns the body of the answer to a request that needs no turn.
type Plain func(Call) ([]byte, *apierror.Error)

// Document returns a Plain that answers each request with the same body.
func Document(body []byte) Plain { return func(Call) ([]byte, *apierror.Error) { return body, nil } }

// Refusal returns a Plain that answers each request with an error of a class.
func Refusal(class apierror.Class, message string) Plain {
	return func(Call) ([]byte, *apierror.Error) { return nil, class.New(message) }
}

// Call is a request that needs no turn.
type Call interface {
	// Read reads the body and passes it to decode.
	Read(decode func(body []byte) *apierror.Error) *apierror.Error
	// Estimate calls count, which estimates the tokens of the body that was read.
	Estimate(count func(sample int) int) (int, *apierror.Error)
	// Models returns the models that clients may use.
	Models() (Models, *apierror.Error)
	// Plan returns the limits of the plan that would serve a turn now; nil: they are not known.
	Plan() *codexrpc.RateLimits
}

// Models are the models that a request may use.
type Models interface {
	Names() []string
	// Find returns what is known of the model with this name. ok is false if no allowed model has the name.
	Find(name string) (m Model, ok bool)
	// Allows reports whether the key of the request allows this name, even if no model has the name.
	Allows(name string) bool
}

// Model describes a model to clients.
type Model struct {
	Name     string // the name by which clients ask for the model
	Title    string // a name for people; empty: the same as Name
	Window   int    // the most tokens that the model reads and writes together; 0: not known
	Blind    bool   // the model reads no images
	Modified time.Time
}

// Limit is the state of a limit, for the headers of an answer.
type Limit struct {
	Unit           quota.Unit
	Max, Remaining int64
	Resets         time.Time // zero: not known
}

// SetLimit sets OpenAI's headers about a limit.
func SetLimit(header http.Header, l Limit) {
	header.Set("X-Ratelimit-Limit-"+string(l.Unit), strconv.FormatInt(l.Max, 10))
	header.Set("X-Ratelimit-Remaining-"+string(l.Unit), strconv.FormatInt(l.Remaining, 10))
	header.Del("X-Ratelimit-Reset-" + string(l.Unit))
	if !l.Resets.IsZero() {
		header.Set("X-Ratelimit-Reset-"+string(l.Unit), max(0, time.Until(l.Resets)).Truncate(time.Second).String())
	}
}
