package reqbody

import (
	"errors"
	"io"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/budget"
)

// chunkSize is small compared to a body, to waste little, and large compared to one read.
const chunkSize = 64 << 10

type chunk [chunkSize]byte

// read reads a body to its end. Most bodies fit into the first piece, which has the
// announced length, or that of a chunk if that is shorter or the length is unknown.
func (p *Pool) read(from io.Reader, announced int64, claim *budget.Claim) ([]byte, error) {
	size := min(chunkSize, p.maxSize+1) // one more, to see the end
	if announced >= 0 {
		size = min(size, announced+1)
	}
	if !claim.Grow(size) {
		return nil, ErrNoMemory
	}
	first := make([]byte, size)
	n, err := fill(first, from)
	if err == nil {
		return p.readMore(first, from, claim)
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
func (p *Pool) readMore(first []byte, from io.Reader, claim *budget.Claim) ([]byte, error) {
	var chunks []*chunk
	defer func() {
		for _, c := range chunks {
			p.chunks.Put(c)
		}
	}()
	for {
		if !claim.Grow(chunkSize) {
			return nil, ErrNoMemory
		}
		c := p.chunks.Get().(*chunk)
		chunks = append(chunks, c)
		n, err := fill(c[:], from)
		if errors.Is(err, io.EOF) {
			whole := p.join(first, chunks, n, claim)
			if len(chunks) > 16 {
				chunks = nil // the pool would keep as much memory as the body takes
			}
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// join joins the pieces of a body. The last chunk has n bytes of it.
func (p *Pool) join(first []byte, chunks []*chunk, n int, claim *budget.Claim) []byte {
	p.joining.Lock()
	defer p.joining.Unlock()
	last := len(chunks) - 1
	whole := append(make([]byte, 0, len(first)+last*chunkSize+n), first...)
	for _, c := range chunks[:last] {
		whole = append(whole, c[:]...)
	}
	whole = append(whole, chunks[last][:n]...)
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
