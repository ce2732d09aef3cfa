package claims

import (
	"context"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallClaim is the most bytes of a claim that may use a budget's reserve, see reserveDivisor.
	smallClaim = 1 << 20

	// The reserve is the budget divided by reserveDivisor. It keeps room for small claims beside large
	// ones.
	reserveDivisor = 8
)

// Budget is a number of bytes, or of other units, that requests share, each with a [Claim] on a
// part. A claim fails immediately if there is no room. A Budget is safe for concurrent use.
//
// A user who shares the server with others (see [Crowd]) must leave as much free as the user holds. So the
// user may hold half of the budget if nobody else uses it, or a third if one other user holds as much. But
// each user may always use minShare units, if so many are free.
type Budget struct {
	limit, minShare int64
	crowd           *Crowd

	mu    sync.Mutex
	used  int64
	users map[string]int64 // by name: how much all claims of the user hold together, if they hold anything
}

// NewBudget returns a budget of limit units. Each user may always use minShare, if so many are free.
func NewBudget(limit, minShare int64, crowd *Crowd) *Budget {
	return &Budget{limit: limit, minShare: minShare, crowd: crowd, users: make(map[string]int64)}
}

// Held returns how much of the budget is in use.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Claim returns an empty claim of a user. The caller must call Release at the end.
func (b *Budget) Claim(user string) *Claim { return &Claim{budget: b, user: user} }

// fits reports whether a claim may grow by n: the budget has room, and the user's share allows it. The
// caller holds the lock.
func (b *Budget) fits(c *Claim, n int64) bool {
	limit := b.limit
	if c.size+n > smallClaim {
		limit -= limit / reserveDivisor
	}
	if b.used+n > limit {
		return false
	}
	userTotal := b.users[c.user] + n
	return userTotal <= b.minShare || userTotal <= b.limit-b.used-n || !b.crowd.Shares(c.user)
}

// Claim is what one request or connection of a user uses of a budget. It is not for concurrent use.
type Claim struct {
	budget *Budget
	user   string
	size   int64
}

// Size returns how much the claim holds.
func (c *Claim) Size() int64 { return c.size }

// Fits reports whether the claim could now grow by n.
func (c *Claim) Fits(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.fits(c, n)
}

// Grow enlarges the claim by n. If the budget has no room for n more, or if the user would exceed
// the share of a user, Grow changes nothing and returns false.
func (c *Claim) Grow(n int64) bool {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if !c.budget.fits(c, n) {
		return false
	}
	c.add(n)
	return true
}

// Shrink reduces the claim to size. If the claim is not larger than size, Shrink does nothing.
func (c *Claim) Shrink(size int64) {
	if size >= c.size {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.add(size - c.size)
}

// add adds n, which may be negative, to what the claim holds. The caller holds the lock.
func (c *Claim) add(n int64) {
	b := c.budget
	b.used += n
	c.size += n
	if held := b.users[c.user] + n; held != 0 {
		b.users[c.user] = held
	} else {
		delete(b.users, c.user)
	}
}

// Release gives back all that the claim holds. The claim may grow again.
func (c *Claim) Release() { c.Shrink(0) }

// Memory is the budget for the memory that requests use in app-servers. Gateways with the same
// app-servers share one budget. It is safe for concurrent use.
type Memory struct {
	*Queue                      // a slot for each MiB
	Decoders        *Queue      // a slot for each choice whose images may be decoded at the same time
	crowd           *Crowd      // the users who have claimed memory
	hasSeveralUsers atomic.Bool // true: a user of a gateway with several users has claimed memory, so each user gets only a part of the budget
}

// NewMemory returns a budget of size bytes, at least one MiB.
func NewMemory(size int64) *Memory {
	m := new(Memory)
	m.crowd = NewCrowd(m.hasSeveralUsers.Load)
	// Only requests that have slots for their turns wait here. So the limit of turns also bounds this queue.
	m.Queue = NewQueue(QueueOptions{Concurrent: int(max(1, size>>20)), Queue: math.MaxInt, Crowd: m.crowd})
	// Codex decodes an image without a pause, on one of as many OS threads as the machine has processors.
	// While all of them decode, Codex answers nobody. So one OS thread is left free.
	m.Decoders = NewQueue(QueueOptions{Concurrent: max(1, runtime.GOMAXPROCS(0)-1), Queue: math.MaxInt, Crowd: m.crowd})
	return m
}

// Claim waits until the budget has room for size MiB more, but no longer than the duration wait.
// gatewayCrowd has the users of the gateway that received the request.
func (m *Memory) Claim(ctx context.Context, gatewayCrowd *Crowd, user string, size int64, wait time.Duration) (Slots, error) {
	m.crowd.Note(user)
	if gatewayCrowd.Shares(user) {
		m.hasSeveralUsers.Store(true)
	}
	return m.AcquireWithin(ctx, user, int(size), wait)
}

// Bytes are bytes that are kept for a reader who may be slow, such as a client. claim counts their
// memory: [Claim.Keep], which makes all Bytes, enlarges the claim, and the last Write releases it.
type Bytes struct {
	data  []byte
	claim *Claim
}

// Keep returns data as Bytes. It first enlarges a claim that is too small; if that fails, it returns false.
func (c *Claim) Keep(data []byte) (Bytes, bool) {
	missing := int64(len(data)) - c.size
	return Bytes{data, c}, missing <= 0 || c.Grow(missing)
}

// Len returns the number of bytes that are not written yet.
func (b *Bytes) Len() int { return len(b.data) }

// Write writes the next bytes, at most n. With the last bytes, it releases the claim, even after an error.
func (b *Bytes) Write(w io.Writer, n int) error {
	piece := b.data[:min(n, len(b.data))]
	if b.data = b.data[len(piece):]; len(b.data) == 0 {
		b.data = nil // frees the memory
		if b.claim != nil {
			defer b.claim.Release()
		}
	}
	_, err := w.Write(piece)
	return err
}
