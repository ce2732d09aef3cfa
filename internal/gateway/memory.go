package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

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
	// image is decoded. The images of a choice are decoded one after the other.
	perPixel = 7
)

// claimMemory waits until the budget has room for the memory that a request needs in app-servers. body
// and toolBytes are the sizes of the body and of its tools in bytes, and pixels is the number of pixels
// of its largest image. A request whose memory rounds to zero MiB claims nothing: the limit on
// concurrent turns bounds such requests.
func (g *Gateway) claimMemory(ex *exchange, body, choices, toolBytes, pixels int64) *apierror.Error {
	perChoice, forDecoding := mib(body*perByte+toolBytes*perToolByte), mib(pixels*perPixel)
	total, maxTotal := choices*(perChoice+forDecoding), int64(g.memory.Heaviest())
	switch {
	case total == 0:
		return nil
	case total > maxTotal && choices > 1:
		return apierror.ChoicesTooLarge(choices, max(1, maxTotal/(perChoice+forDecoding)))
	}
	slots, err := g.memory.Claim(ex.ctx, g.crowd, ex.user, min(total, maxTotal), g.opts.QueueWait)
	if apiErr := g.queueError(err); apiErr != nil {
		return apiErr
	}
	ex.memory = &turnMemory{slots: slots, sizeAfter: int(min(choices*perChoice, maxTotal))}
	if forDecoding > 0 {
		ex.memory.pendingChoices, ex.memory.decodings = int(choices), make([]decoding, choices)
	}
	ex.memory.Hold()
	ex.releaseOnClose(ex.memory)
	return nil
}

func mib(bytes int64) int64 { return (bytes + 1<<19) >> 20 }

// turnMemory is the memory that the turns of a request need in app-servers. The memory is released when
// the exchange is closed and the app-servers have ended the work on all turns: Codex decodes images to
// the end, even if the client has left. A nil *turnMemory holds nothing.
type turnMemory struct {
	holders   atomic.Int32 // the exchange, and the threads that have got the request
	slots     claims.Slots // of claims.Memory
	sizeAfter int          // MiB that the request still holds when all images are decoded

	mu             sync.Mutex
	decodings      []decoding // one for each choice; nil: there are no images
	pendingChoices int        // choices whose images were never decoded yet
}

// decoding is the state of the images of a choice. If the turn is started again, Codex decodes the
// images again. No memory is claimed for this second time, since the number of decoders bounds it.
type decoding struct {
	allowed bool         // Codex may decode them now
	done    bool         // they were decoded once
	decoder claims.Slots // of claims.Memory.Decoders
}

// release releases the decoder. Further calls do nothing.
func (d *decoding) release() {
	d.decoder.Release()
	d.allowed = false
}

// Hold adds a holder, which must call Release.
func (m *turnMemory) Hold() {
	if m != nil {
		m.holders.Add(1)
	}
}

// Release removes a holder. When the last holder is removed, everything is released.
func (m *turnMemory) Release() {
	if m == nil || m.holders.Add(-1) > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.decodings {
		m.decodings[i].release()
	}
	m.slots.Release()
}

// awaitDecoder waits until Codex may decode the images of a choice. It is called before each start of
// the turn. If the turn is then not started, the caller calls undo.
func (g *Gateway) awaitDecoder(ctx context.Context, ex *exchange, choice int) (undo func(), err error) {
	m := ex.memory
	if m == nil || m.decodings == nil {
		return func() {}, nil
	}
	d := &m.decodings[choice]
	m.mu.Lock()
	allowed := d.allowed
	m.mu.Unlock()
	if allowed { // by an earlier call, after which no images were decoded
		return func() {}, nil
	}
	decoder, err := g.memory.Decoders.AcquireWithin(ctx, ex.user, 1, g.opts.QueueWait)
	if apiErr := g.queueError(err); apiErr != nil {
		return nil, apiErr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d.allowed, d.decoder = true, decoder
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		d.release()
	}, nil
}

// choiceDone returns a function to call when the images of a choice are decoded. It returns nil if there
// are no images. The function releases the decoder of the choice. When the images of all choices have
// been decoded, the function also releases the memory for decoding.
func (m *turnMemory) choiceDone(choice int) func() {
	if m == nil || m.decodings == nil {
		return nil
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		d := &m.decodings[choice]
		d.release()
		if d.done {
			return
		}
		d.done = true
		if m.pendingChoices--; m.pendingChoices == 0 {
			m.slots.Shrink(m.sizeAfter)
		}
	}
}

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

// answerClaim claims memory for the outputs that an answer keeps until it ends. An answer in one body
// keeps all outputs; a stream keeps those that its last event repeats. The memory in use is about five
// times the claim, because of the encoded form and the buffers. A nil *answerClaim claims nothing.
type answerClaim struct {
	claim   *claims.Claim
	maxSize int64 // in bytes
	size    int64 // bytes that the answer needs so far
}

func (g *Gateway) newAnswerClaim(user string) *answerClaim {
	return &answerClaim{claim: g.answerBudget.Claim(user), maxSize: g.maxAnswer}
}

func (c *answerClaim) release() {
	if c != nil {
		c.claim.Release()
	}
}

// add claims memory for an output. It returns an *apierror.Error if the answer, the answers of the user, or
// all answers together would be too large.
func (c *answerClaim) add(o *turn.Output) error {
	if c == nil {
		return nil
	}
	c.size += int64(len(o.Text))
	switch o.Kind {
	case turn.OutputCall, turn.OutputReasoningEnd, turn.OutputSearchStart, turn.OutputSearchEnd,
		turn.OutputAnnotations, turn.OutputSummary:
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
