package gateway

import (
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/budget"
)

// bodies are all request bodies in memory: those that are read, and those of
// requests that wait for a place or are being started.
//
// A body is read into chunks that serve again for others, and put together at
// its end. So it is copied once and never grows by doubling, and a client that
// does not come to an end leaves no garbage.
type bodies struct {
	budget  *budget.Budget
	largest int64      // body, in bytes
	joining sync.Mutex // held by whom the memory for one body more belongs
	chunks  sync.Pool  // of *chunk
}

// chunkSize is small against the limit of a body, so that little is held that
// is not used, and large against what one read brings.
const chunkSize = 64 << 10

type chunk [chunkSize]byte

// newBodies makes room for bodies: of the memory that they may take together, the
// size of one is for putting them together.
func newBodies(memory, maxBody int64) *bodies {
	return &bodies{
		budget:  budget.New(memory - maxBody),
		largest: maxBody,
		chunks:  sync.Pool{New: func() any { return new(chunk) }},
	}
}

// read reads a body to its end. Most fit into the first piece, which is of the
// announced length, or of a chunk's if that is shorter or not known.
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

// readMore reads what follows the first piece of a body.
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
			return b.join(first, chunks, n, claim), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// join puts a body together. The last chunk has n bytes of it.
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
