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
