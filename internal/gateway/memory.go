package gateway

import (
	"errors"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// What a request makes an app-server hold, as measured with Codex 0.169.
const (
	// codexMemory is the memory of the app-servers for that, if the options say nothing.
	codexMemory = 512 << 20
	// perByte is the bytes for each byte of a request, in each choice, until its turn ends.
	perByte = 5
	// perPixel is the bytes for each pixel of an image, in each choice, while it is decoded. Images
	// are decoded one after the other.
	perPixel = 7
)

// claimMemory waits until the app-servers have the memory for a request. What takes less than a
// MiB needs no claim: the turns at once bound it.
func (g *Gateway) claimMemory(x *exchange, choices, pixels int64) *apierror.Error {
	held, decoding := mib(x.body.Size()*perByte), mib(pixels*perPixel)
	all, most := choices*(held+decoding), int64(g.memory.Heaviest())
	switch {
	case all == 0:
		return nil
	case all > most && choices > 1:
		return apierror.ChoicesTooLarge(choices, max(1, most/(held+decoding)))
	}
	slots, err := g.memory.Acquire(x.ctx, x.user, int(min(all, most)))
	if apiErr := g.queueError(err); apiErr != nil {
		return apiErr
	}
	x.memory = slots
	x.holds(&x.memory)
	if decoding > 0 {
		x.decoding = newDecoding(&x.memory, int(min(choices*held, most)), int(choices))
	}
	return nil
}

// mib returns a number of bytes in MiB, rounded to the nearest.
func mib(bytes int64) int64 { return (bytes + 1<<19) >> 20 }

// decoding is the decoding of a request's images.
type decoding struct {
	memory *claims.Slots
	after  int // what the request holds afterwards

	mu   sync.Mutex
	left int // choices whose images are not decoded
}

func newDecoding(memory *claims.Slots, after, choices int) *decoding {
	return &decoding{memory: memory, after: after, left: choices}
}

// ended returns a function that says, once, that the images of a choice are decoded. After the
// last choice their memory is given back. It returns nil if there is no decoding.
func (d *decoding) ended() func() {
	if d == nil {
		return nil
	}
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.left--; d.left == 0 {
			d.memory.Shrink(d.after)
		}
	})
}

// queueError returns the error of the API for one of a queue, nil for nil.
func (g *Gateway) queueError(err error) *apierror.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claims.ErrFull):
		return apierror.QueueFull()
	case errors.Is(err, claims.ErrTimeout):
		return apierror.QueueTimeout(g.opts.QueueWait)
	}
	return apierror.From(err)
}
