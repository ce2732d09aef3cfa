package claims

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

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
