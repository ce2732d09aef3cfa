package gateway

import (
	"context"
	"fmt"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
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
	newAnswer(ex *exchange, plan *prompt.Plan, options *turn.Options) answer
}

// answer is the answer to one request, in the format of its API. It makes the encoder for the
// outputs.
type answer interface {
	// stream returns an encoder that streams the answer through w. place is where the first turn
	// runs.
	stream(w *sse.Writer, place *conversation.Place) streamEncoder
	// body returns an encoder that collects the answer and returns it as a whole. place is where
	// the first turn runs.
	body(place *conversation.Place) bodyEncoder
	// apiError converts a failure to the error that the client gets.
	apiError(failure error) *apierror.Error
	// track makes the answer known to other requests until end is called, if other requests can
	// refer to it. A request that deletes or cancels the answer cancels the returned context.
	track(ctx context.Context) (_ context.Context, end func())
	// forget drops the answer's references to the body of the request. It is called when no turn
	// needs the body any more. kept is how many bytes of the body the answer repeats, and so keeps
	// until its end.
	forget() (kept int64)
	// notStored returns what of the answer could not be stored, as in notStoredHeader, or "".
	notStored() string
}

// warmupAnswer is an answer whose request may be a warm-up, which needs no turn. isWarmup reports
// whether the request is a warm-up.
type warmupAnswer interface{ isWarmup() bool }

// partialAnswer is an answer that is useful even if some of its choices fail.
type partialAnswer interface{ allowsPartial() }

// streamEncoder encodes the outputs of a request's turns as events.
type streamEncoder interface {
	chunkEncoder
	// Open writes what comes before the first output, which may be nothing. It is called once,
	// before Write, Fail and Close.
	Open() error
	// KeepsOutputs reports whether the encoder keeps all outputs in memory until the end.
	KeepsOutputs() bool
	// Close writes what follows the last event. tools is the sum of the reports of all choices.
	Close(tools turn.Report) error
}

// bodyEncoder collects the outputs of a request's turns in one body.
type bodyEncoder interface {
	// Write adds the next output of a choice. It is not called with failures. An *apierror.Error
	// means that the client cannot read the output.
	Write(choice int, out turn.Output) error
	// JSON returns the body. It is called when all choices have ended.
	JSON() []byte
}

// collect returns an encoder that makes a body.
func collect(e api.Encoder) bodyEncoder {
	e.Begin(nil)
	return e
}

// selfContained is embedded in requests that contain their whole conversation, and in answers that
// no other request can refer to.
type selfContained struct{}

func (selfContained) resolve(*exchange, *claims.Claim) *apierror.Error { return nil }

func (selfContained) track(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

func (selfContained) forget() (kept int64) { return 0 }

func (selfContained) notStored() string { return "" }

// chunkStream encodes an answer as chunks. Each chunk has only what is new.
type chunkStream struct {
	chunkEncoder
	writer *sse.Writer
}

// chunkEncoder encodes outputs as chunks or events.
type chunkEncoder interface {
	// Write writes the next output of a choice. It is not called with failures.
	Write(choice int, out turn.Output) error
	// Fail writes that the request has failed.
	Fail(apiErr *apierror.Error) error
	// Idle releases the memory that is needed only for writing. It is called when all outputs that
	// have come are written.
	Idle()
	// Done reports whether the last event that depends on outputs is written: all choices have
	// finished, or the request has failed.
	Done() bool
}

// Open writes nothing: the first chunk of a choice comes with its first output.
func (*chunkStream) Open() error { return nil }

func (*chunkStream) KeepsOutputs() bool { return false }

// Close writes the counts of the tool calls and the end mark.
func (s *chunkStream) Close(tools turn.Report) error {
	if err := writeCounts(s.writer, tools); err != nil {
		return err
	}
	return s.writer.WriteDone()
}

// writeCounts writes a comment with the number of tool calls, and whether there were more than the
// limit allows. Clients skip comments. If there were no calls, writeCounts writes nothing.
func writeCounts(w *sse.Writer, tools turn.Report) error {
	if tools.Calls == 0 {
		return nil
	}
	return w.WriteComment(fmt.Sprintf("tool_calls=%d truncated=%t", tools.Calls, tools.Truncated))
}

// request has all that the turns of a request and its answer need.
type request struct {
	receivedRequest
	plan      *prompt.Plan // its large parts are dropped when no further turn will be started
	options   turn.Options // of the first choice; each other choice has a copy
	answer    answer
	overrides []string // see [Gateway.toolOverrides]

	input   int64  // estimated tokens of the input of each turn
	endCopy func() // called when the copies of the body are gone, so that another large body can be copied; further calls do nothing
}
