package gateway

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
)

// bodies are all request bodies in memory: those that are being read, and those of
// requests that wait or are being started.
//
// A body is read into chunks and joined at its end, so that it is copied once and its
// buffer never grows by doubling. The chunks are reused if the body does not come to
// its end, so that clients that send half bodies make no garbage.
type bodies struct {
	budget  *budget.Budget
	largest int64         // body, in bytes
	joining sync.Mutex    // held while the memory of one body more is used
	chunks  sync.Pool     // of *chunk
	copying chan struct{} // one element for each large body that is being copied
}

const (
	// bigBody is the size above which few bodies are copied at once, in bytes.
	bigBody = 1 << 20
	// bigCopies is how many large bodies are copied at once.
	bigCopies = 2
	// copyWait is how long a large body waits for others. Codex takes seconds for one
	// of 32 MiB.
	copyWait = time.Minute
)

var (
	// errCopyWait means that a large body has waited for copyWait.
	errCopyWait = errors.New("other large bodies are being copied")
	// errNoMemory means that the budget has no room for a body.
	errNoMemory = errors.New("no memory for the body")
)

// copies waits until a body of a size in bytes may be copied: into a plan, into calls
// of the app-server, and into their lines, which takes several times its size. The
// caller calls done when the copies are gone; it may be called more than once.
func (b *bodies) copies(ctx context.Context, size int64) (done func(), err error) {
	if size <= bigBody {
		return func() {}, nil
	}
	timer := time.NewTimer(copyWait)
	defer timer.Stop()
	select {
	case b.copying <- struct{}{}:
		return sync.OnceFunc(func() { <-b.copying }), nil
	case <-timer.C:
		return nil, errCopyWait
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// chunkSize is small compared to the limit of a body, so that little memory is unused,
// and large compared to what one read returns.
const chunkSize = 64 << 10

type chunk [chunkSize]byte

// newBodies returns bodies that take at most memory bytes together. Of these, maxBody
// are for joining one.
func newBodies(memory, maxBody int64) *bodies {
	return &bodies{
		budget:  budget.New(memory - maxBody),
		largest: maxBody,
		copying: make(chan struct{}, bigCopies),
		chunks:  sync.Pool{New: func() any { return new(chunk) }},
	}
}

// read reads a body to its end. Most bodies fit into the first piece, which has the
// announced length, or that of a chunk if that is shorter or the length is unknown.
func (b *bodies) read(from io.Reader, announced int64, claim *budget.Claim) ([]byte, error) {
	size := min(chunkSize, b.largest+1) // one more, to see the end
	if announced >= 0 {
		size = min(size, announced+1)
	}
	if !claim.Grow(size) {
		return nil, errNoMemory
	}
	first := make([]byte, size)
	n, err := fill(first, from)
	if err == nil {
		return b.readMore(first, from, claim)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < len(first)/2 {
		first = slices.Clone(first[:n])
		claim.Shrink(int64(cap(first)))
	}
	return first[:n], nil
}

// readMore reads the rest of a body, after its first piece.
func (b *bodies) readMore(first []byte, from io.Reader, claim *budget.Claim) ([]byte, error) {
	var chunks []*chunk
	defer func() {
		for _, c := range chunks {
			b.chunks.Put(c)
		}
	}()
	for {
		if !claim.Grow(chunkSize) {
			return nil, errNoMemory
		}
		c := b.chunks.Get().(*chunk)
		chunks = append(chunks, c)
		n, err := fill(c[:], from)
		if errors.Is(err, io.EOF) {
			whole := b.join(first, chunks, n, claim)
			chunks = nil // the pool would keep as much memory as the body takes
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// join joins the pieces of a body. The last chunk has n bytes of it.
func (b *bodies) join(first []byte, chunks []*chunk, n int, claim *budget.Claim) []byte {
	b.joining.Lock()
	defer b.joining.Unlock()
	whole := make([]byte, 0, len(first)+(len(chunks)-1)*chunkSize+n)
	whole = append(whole, first...)
	for i, c := range chunks {
		part := c[:]
		if i == len(chunks)-1 {
			part = c[:n]
		}
		whole = append(whole, part...)
	}
	claim.Shrink(int64(cap(whole)))
	return whole
}

// fill reads until buf is full. At the end of the body the error is io.EOF.
func fill(buf []byte, from io.Reader) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = from.Read(buf[n:])
		n += more
	}
	if n == len(buf) && errors.Is(err, io.EOF) {
		return n, nil // the next read says so again
	}
	return n, err
}
