package gateway

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// The memory that a request needs in an app-server, as measured with Codex 0.169.
const (
	// defaultMemory is the budget of all app-servers together if the options set none.
	defaultMemory = 512 << 20
	// perByte is how many bytes of memory each choice needs for each byte of the request, until the
	// turn of the choice ends.
	perByte = 5
	// perToolByte is how many more bytes of memory each choice needs for each byte of the tools,
	// until the turn of the choice ends: Codex reads the schemas into trees.
	perToolByte = 50
	// perPixel is how many bytes of memory each choice needs for each pixel of an image while the
	// image is decoded. Images are decoded one after the other.
	perPixel = 7
)

// Memory is the budget for the memory that requests use in app-servers. Gateways with the same
// app-servers share one budget. It is safe for concurrent use.
type Memory struct {
	queue           *claims.Queue // a slot for each MiB
	crowd           *claims.Crowd
	hasSeveralUsers atomic.Bool // true: a user of a gateway with several users has claimed memory, so each user gets only a part of the budget
}

// NewMemory returns a budget of size bytes, at least one MiB.
func NewMemory(size int64) *Memory {
	m := new(Memory)
	m.crowd = claims.NewCrowd(m.hasSeveralUsers.Load)
	// A request waits here only after it has got a slot for its turns. So the limit on turns also
	// bounds this queue.
	m.queue = claims.NewQueue(claims.QueueOptions{Concurrent: int(max(1, size>>20)), Queue: math.MaxInt, Crowd: m.crowd})
	return m
}

// acquire waits until the budget has room for size MiB more, but no longer than the duration wait.
// gatewayCrowd has the users of the gateway that received the request.
func (m *Memory) acquire(ctx context.Context, gatewayCrowd *claims.Crowd, user string, size int64, wait time.Duration) (claims.Slots, error) {
	m.crowd.Note(user)
	if gatewayCrowd.Shares(user) {
		m.hasSeveralUsers.Store(true)
	}
	return m.queue.AcquireWithin(ctx, user, int(size), wait)
}

// claimMemory waits until the budget has room for the memory that a request needs in app-servers.
// body is the size of the request's body in bytes. A request whose memory rounds to zero MiB claims
// nothing: the limit on concurrent turns bounds such requests. The result is nil if no memory for
// decoding images was claimed.
func (g *Gateway) claimMemory(ex *exchange, body, choices, toolBytes, pixels int64) (*imageDecoding, *apierror.Error) {
	perChoice, forDecoding := mib(body*perByte+toolBytes*perToolByte), mib(pixels*perPixel)
	total, maxTotal := choices*(perChoice+forDecoding), int64(g.memory.queue.Heaviest())
	switch {
	case total == 0:
		return nil, nil
	case total > maxTotal && choices > 1:
		return nil, apierror.ChoicesTooLarge(choices, max(1, maxTotal/(perChoice+forDecoding)))
	}
	slots, err := g.memory.acquire(ex.ctx, g.crowd, ex.user, min(total, maxTotal), g.opts.QueueWait)
	if apiErr := g.queueError(err); apiErr != nil {
		return nil, apiErr
	}
	ex.prealloc.memorySlots = slots
	ex.releaseOnClose(&ex.prealloc.memorySlots)
	if forDecoding == 0 {
		return nil, nil
	}
	return newImageDecoding(&ex.prealloc.memorySlots, int(min(choices*perChoice, maxTotal)), int(choices)), nil
}

// mib returns a number of bytes in MiB, rounded to the nearest.
func mib(bytes int64) int64 { return (bytes + 1<<19) >> 20 }

// imageDecoding counts the choices whose images are still to be decoded. When all are decoded, it
// releases the memory that only decoding needs.
type imageDecoding struct {
	memory    *claims.Slots
	sizeAfter int // MiB that the request still holds when all images are decoded

	mu             sync.Mutex
	pendingChoices int // choices whose images are not decoded yet
}

func newImageDecoding(memory *claims.Slots, sizeAfter, choices int) *imageDecoding {
	return &imageDecoding{memory: memory, sizeAfter: sizeAfter, pendingChoices: choices}
}

// choiceDone returns a function to call when the images of a choice are decoded. Further calls of
// this function do nothing. The call for the last choice releases the memory for decoding. If d is
// nil, choiceDone returns nil.
func (d *imageDecoding) choiceDone() func() {
	if d == nil {
		return nil
	}
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.pendingChoices--; d.pendingChoices == 0 {
			d.memory.Shrink(d.sizeAfter)
		}
	})
}

// queueError converts an error of a queue to an API error; nil stays nil.
func (g *Gateway) queueError(err error) *apierror.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claims.ErrFull):
		return apierror.QueueFull()
	case errors.Is(err, claims.ErrTimeout):
		return apierror.QueueTimeout(g.opts.QueueWait)
	}
	return failures.APIError(err)
}

// The memory that answers need in this process.
const (
	// maxAnswer is how many bytes of one answer, with all its choices, may be in memory. Text stays
	// far below this limit: a model writes at most three million bytes in one answer.
	maxAnswer = 32 << 20
	// answerMemory is how many bytes of all answers together may be in memory.
	answerMemory = 256 << 20
	// claimStep is the smallest number of bytes by which the claim of an answer grows.
	claimStep = 64 << 10
	// itemOverhead is how many bytes are claimed for each item of an answer, besides its text.
	itemOverhead = 256
)

// answerClaim claims memory for what an answer keeps in memory until the answer ends. An answer in
// one body keeps everything; a stream keeps what its last event repeats. The memory in use is about
// five times the claim, because of the encoded form and the buffers. A nil *answerClaim claims
// nothing.
type answerClaim struct {
	claim   *claims.Claim
	maxSize int64 // in bytes
	size    int64 // bytes that the answer needs so far
}

// newAnswerClaim returns an empty claim for an answer to a user.
func (g *Gateway) newAnswerClaim(user string) *answerClaim {
	return &answerClaim{claim: g.answerBudget.Claim(user), maxSize: g.maxAnswer}
}

// release releases the claim. It is called when the answer has ended.
func (c *answerClaim) release() {
	if c != nil {
		c.claim.Release()
	}
}

// add claims memory for an output. It returns an *apierror.Error if this answer would be too large,
// or if all answers together or those of the user would be too large.
func (c *answerClaim) add(o *turn.Output) error {
	if c == nil {
		return nil
	}
	c.size += int64(len(o.Text))
	switch o.Kind {
	case turn.OutputCall, turn.OutputReasoningEnd, turn.OutputSearchStart, turn.OutputSearchEnd,
		turn.OutputAnnotations, turn.OutputPictureStart:
		c.size += itemOverhead + int64(len(o.ID)+len(o.Name))
	case turn.OutputReasoning, turn.OutputText:
		if o.Gap { // the output separates two parts of a summary, or two messages
			c.size += itemOverhead + int64(len(o.ID))
		}
	}
	if c.size > c.maxSize {
		return apierror.AnswerTooLarge(c.maxSize)
	}
	if missing := c.size - c.claim.Size(); missing > 0 && !c.claim.Grow(max(missing, claimStep)) {
		return apierror.AnswerMemory()
	}
	return nil
}
