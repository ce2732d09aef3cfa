// Package reqbody reads the bodies of HTTP requests. It limits the size of each body, the memory of
// all bodies, and the time for a body. It stops reading a body that comes too slowly.
package reqbody

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

var (
	// ErrNoMemory means that other bodies take up the memory that this body needs.
	ErrNoMemory = errors.New("no memory for the body")
	// ErrTooSlow means that a body came more slowly than [MinRate], that it took longer than
	// [MaxTime], or that another deadline of the connection has passed.
	ErrTooSlow = errors.New("the body came too slowly")
	// ErrCopyWait means that a large body has waited for maxCopyWait to be copied.
	ErrCopyWait = errors.New("other large bodies are being copied")
)

// Pool limits the memory of request bodies: bodies that are being read, and bodies of requests that
// wait or are being started. Its methods are safe for concurrent use.
//
// A body is read into chunks, which are joined at the end of the body. So the body is copied only once,
// and no buffer grows by doubling. The chunks are reused, even if the body broke off. So clients that
// send incomplete bodies cause no work for the garbage collector.
type Pool struct {
	budget    *claims.Budget
	maxSize   int64         // the most bytes of a body
	joinMu    sync.Mutex    // held while a body is joined: during this time the body takes its memory twice
	chunks    sync.Pool     // of *chunk
	copySlots *claims.Queue // a slot for each large body that is being copied
}

// NewPool returns a pool of bodies. A body has at most maxSize bytes. All bodies together take at most
// memory bytes. maxSize bytes of them are reserved for the body whose chunks are being joined, since this
// body takes its memory twice. crowd finds out whether a user has to leave memory to others.
func NewPool(memory, maxSize int64, crowd *claims.Crowd) *Pool {
	return &Pool{
		budget:    claims.NewBudget(memory-maxSize, maxSize, crowd),
		maxSize:   maxSize,
		copySlots: claims.NewQueue(claims.QueueOptions{Concurrent: maxLargeCopies, Queue: math.MaxInt, Wait: maxCopyWait, Crowd: crowd}),
		chunks:    sync.Pool{New: func() any { return new(chunk) }},
	}
}

// Claim returns an empty claim for a body of a user. The caller must call Release of the claim at the end.
func (p *Pool) Claim(user string) *claims.Claim { return p.budget.Claim(user) }

// Held returns how many bytes all bodies take.
func (p *Pool) Held() int64 { return p.budget.Held() }

// Copying returns how many large bodies are being copied.
func (p *Pool) Copying() int { return p.copySlots.Running() }

// Read reads a request's body to its end: over HTTP/1, an answer can be streamed only after the end of
// the body. The memory of the body is added to claim. Read gives up when ctx ends or the client is too
// slow. Otherwise a client could occupy memory, and keep the processes of an old configuration running,
// without end. A body in gzip or zstd is decoded, and the limits apply to the decoded size. Errors:
// ErrNoMemory, ErrTooSlow, ErrEncoding, a *CorruptError, a *http.MaxBytesError (also if another handler
// limits the size), the cause of the end of ctx, or an error of the connection. If *original is not nil, it
// becomes the body as it came, and claim also counts it.
func (p *Pool) Read(ctx context.Context, w http.ResponseWriter, r *http.Request, claim *claims.Claim, original *[]byte) ([]byte, error) {
	encoding, err := encodingOf(r)
	switch {
	case err != nil:
	case r.ContentLength > p.maxSize:
		err = &http.MaxBytesError{Limit: p.maxSize}
	case !claim.Fits(r.ContentLength):
		err = ErrNoMemory
	}
	if err != nil {
		LimitDiscard(w)
		return nil, err
	}
	reader := newBodyReader(ctx, w, http.MaxBytesReader(w, r.Body, p.maxSize))
	defer reader.close()                         // also if a Read panics
	defer context.AfterFunc(ctx, reader.check)() // check ends the body when ctx ends
	body, err := p.decode(encoding, reader, r.ContentLength, claim, original)
	if reader.close() && err == nil { // the body is complete, but its connection is unusable
		if err = context.Cause(ctx); err == nil { // ctx has not ended, so the client was too slow
			err = os.ErrDeadlineExceeded
		}
	}
	if err == nil {
		return body, nil
	}
	switch {
	case errors.Is(err, ErrNoMemory), errors.As(err, new(*CorruptError)), errors.As(err, new(*http.MaxBytesError)):
		LimitDiscard(w)
	case errors.Is(err, os.ErrDeadlineExceeded) && (r.ProtoMajor == 1 || ctx.Err() == nil):
		// Over HTTP/1, ctx also ends when a deadline has passed, even a deadline of Caddy. Over
		// HTTP/2, the end of ctx means that the client has gone.
		err = ErrTooSlow
	}
	return nil, err
}

// decode reads a body to its end and decodes it. encoding may be "", contentLength below 0.
func (p *Pool) decode(encoding string, body io.Reader, contentLength int64, claim *claims.Claim, original *[]byte) ([]byte, error) {
	if encoding == "" || *original != nil {
		whole, err := p.read(body, contentLength, claim)
		if *original != nil {
			*original, body = whole, bytes.NewReader(whole)
		}
		if encoding == "" || err != nil {
			return whole, err
		}
	}
	d := &decoder{encoding: encoding, body: &encodedBody{Reader: body}, claim: claim, close: func() {}}
	defer func() { d.close() }()
	return p.read(http.MaxBytesReader(nil, io.NopCloser(d), p.maxSize), -1, claim)
}

const (
	// largeBody is the size in bytes above which at most maxLargeCopies are copied at once.
	largeBody = 1 << 20
	// maxLargeCopies is how many large bodies are copied at the same time.
	maxLargeCopies = 2
	// maxCopyWait is how long a large body waits for other bodies to be copied. It is long, since
	// Codex takes seconds to read 32 MiB.
	maxCopyWait = time.Minute
)

// WaitToCopy waits until a user's body of size bytes may be copied. A body of at most largeBody bytes
// need not wait. The copies are the prompt.Plan, the calls to the app-server, and the JSON of the calls;
// together they are several times as large as the body. The caller calls done when the copies are gone;
// more calls have no effect. The error is ErrCopyWait or the cause of the end of ctx.
func (p *Pool) WaitToCopy(ctx context.Context, user string, size int64) (done func(), err error) {
	if size <= largeBody {
		return func() {}, nil
	}
	slot, err := p.copySlots.Acquire(ctx, user, 1)
	if errors.Is(err, claims.ErrTimeout) {
		err = ErrCopyWait
	}
	if err != nil {
		return nil, err
	}
	return slot.Release, nil
}

// maxSkipped is how many bytes of a body Skip reads. If the body is longer, the connection ends.
const maxSkipped = 256 << 10

// Skip reads and drops at most maxSkipped bytes of an HTTP/1 body that the handler does not need, and
// reports whether these bytes came in time. Without Skip, the server would read the body before it writes
// the answer, without a limit of time. For HTTP/2, Skip does nothing and returns true.
func Skip(w http.ResponseWriter, r *http.Request) (inTime bool) {
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return true
	}
	LimitDiscard(w)
	_, err := io.CopyN(io.Discard, r.Body, maxSkipped)
	if errors.Is(err, io.EOF) {
		// The deadline ends here: the answer may take longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return true
	}
	return err == nil
}

// LimitDiscard limits to two seconds how long the HTTP server reads on in a refused body. Over HTTP/1, the
// server reads on because many clients read the answer only after they have sent the whole body.
func LimitDiscard(w http.ResponseWriter) {
	// The error is ignored: a writer without deadlines has no connection, so no client can be slow.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * time.Second))
}

// chunkSize is the size of a chunk in bytes. It is small compared to a large body, so that little
// memory is wasted. It is larger than what one read returns.
const chunkSize = 64 << 10

type chunk [chunkSize]byte

// read reads a body of contentLength bytes (below 0: not known) to its end. It first reads a piece of
// contentLength+1 bytes, but at most chunkSize; if contentLength is not known, of chunkSize bytes. Most
// bodies fit into this piece.
func (p *Pool) read(body io.Reader, contentLength int64, claim *claims.Claim) ([]byte, error) {
	size := min(chunkSize, p.maxSize+1) // one byte more, so that a read returns the end of the body
	if contentLength >= 0 {
		size = min(size, contentLength+1)
	}
	before := claim.Size()
	if !claim.Grow(size) {
		return nil, ErrNoMemory
	}
	first := make([]byte, size)
	n, err := fill(first, body)
	if err == nil {
		return p.readMore(first, body, claim, before)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < len(first)/2 { // the piece is much too large for the body
		first = slices.Clone(first[:n])
	}
	claim.Shrink(before + int64(cap(first))) // a decoder has also claimed memory, which is free now
	return first[:n], nil
}

func (p *Pool) readMore(first []byte, body io.Reader, claim *claims.Claim, before int64) ([]byte, error) {
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
		n, err := fill(c[:], body)
		if errors.Is(err, io.EOF) {
			whole := p.join(first, chunks, n)
			claim.Shrink(before + int64(cap(whole)))
			if len(chunks) > 16 {
				chunks = nil // not reused, since the pool would keep as much memory as the body takes
			}
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// join joins the pieces of a body. Of the last chunk, only the first n bytes belong to the body.
func (p *Pool) join(first []byte, chunks []*chunk, n int) []byte {
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	last := len(chunks) - 1
	whole := append(make([]byte, 0, len(first)+last*chunkSize+n), first...)
	for _, c := range chunks[:last] {
		whole = append(whole, c[:]...)
	}
	return append(whole, chunks[last][:n]...)
}

// fill reads until buf is full. If the body ends before buf is full, the error is io.EOF.
func fill(buf []byte, body io.Reader) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = body.Read(buf[n:])
		n += more
	}
	if n == len(buf) && errors.Is(err, io.EOF) {
		return n, nil // the next read returns io.EOF again
	}
	return n, err
}
