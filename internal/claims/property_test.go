package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandomly: whoever comes, waits, gives up and goes at whatever moment,
// there are never more running than allowed, nor more waiting, no request waits
// while it may have its slots, Full says what Acquire then does, and in the end
// no slot is lost.
func TestRandomly(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { randomly(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func randomly(t *testing.T, random *rand.Rand) {
	opts := QueueOptions{Concurrent: 1 + random.IntN(6), Queue: random.IntN(12), Wait: time.Duration(1+random.IntN(40)) * time.Millisecond}
	if random.IntN(3) == 0 {
		opts.PerUser = 1 + random.IntN(opts.Concurrent)
	}
	q := NewQueue(opts)
	var running atomic.Int64
	var wg sync.WaitGroup
	for range 150 {
		user, weight := []string{"", "1", "2", "3"}[random.IntN(4)], 1+random.IntN(q.Heaviest())
		patience, work := time.Duration(random.IntN(30))*time.Millisecond, time.Duration(random.IntN(8))*time.Millisecond
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			slots, err := q.Acquire(ctx, user, weight)
			switch {
			case err == nil:
			case errors.Is(err, ErrFull), errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
				return
			default:
				t.Error(err)
				return
			}
			if now := running.Add(int64(weight)); now > int64(opts.Concurrent) {
				t.Errorf("%d slots of %d are in use", now, opts.Concurrent)
			}
			time.Sleep(work)
			running.Add(int64(-weight))
			slots.Release()
		})
		time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
		synctest.Wait()
		checkState(t, q)
		if user := fmt.Sprint(random.IntN(4)); q.Full(user) {
			if _, err := q.Acquire(t.Context(), user, 1+random.IntN(q.Heaviest())); !errors.Is(err, ErrFull) {
				t.Errorf("the queue was full for %q, and Acquire said %v", user, err)
			}
		}
	}
	wg.Wait()
	checkCounts(t, q, 0, 0)
	if len(q.users) != 0 || q.waitingUsers.Len() != 0 {
		t.Errorf("%d users and %d lines are left", len(q.users), q.waitingUsers.Len())
	}
}

// checkState holds what is true whenever nothing moves.
func checkState(t *testing.T, q *Queue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running < 0 || q.running > q.opts.Concurrent || q.waiting > q.opts.Queue {
		t.Errorf("%d running, %d waiting with %+v", q.running, q.waiting, q.opts)
	}
	running, waiting, turns := 0, 0, 0
	for user, m := range q.users {
		running += m.running
		waiting += m.waiters.Len()
		if m.waitingElem != nil {
			turns++
		}
		if m.name != user || m.running == 0 && m.waiters.Len() == 0 || (m.waitingElem != nil) != (m.waiters.Len() > 0) {
			t.Errorf("%q is kept as %+v", user, m)
		}
		if most := q.opts.PerUser; most > 0 && m.running > most {
			t.Errorf("%q holds %d slots of at most %d", user, m.running, most)
		}
	}
	if running != q.running || waiting != q.waiting || turns != q.waitingUsers.Len() {
		t.Errorf("%d run and %d wait in %d lines, but %d, %d and %d are counted", running, waiting, turns, q.running, q.waiting, q.waitingUsers.Len())
	}
	for e := q.waitingUsers.Front(); e != nil; e = e.Next() {
		m := e.Value.(*queueUser)
		if !q.mayHold(m, m.first().weight) {
			continue
		}
		if weight := m.first().weight; q.running+weight <= q.opts.Concurrent {
			t.Errorf("one waits for %d slots with %d of %d in use", weight, q.running, q.opts.Concurrent)
		}
		break
	}
}

// TestFairness: however many requests a user sends, users who always have one
// waiting are served alike.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 3, Queue: 60, Wait: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		served := make(map[string]*atomic.Int64)
		var wg sync.WaitGroup
		for user, clients := range map[string]int{"greedy": 50, "busy": 5, "modest": 4} {
			count := new(atomic.Int64)
			served[user] = count
			for range clients {
				wg.Go(func() {
					for ctx.Err() == nil {
						slots, err := q.Acquire(ctx, user, 1)
						if err != nil {
							if ctx.Err() == nil {
								t.Error(err)
							}
							return
						}
						time.Sleep(time.Second)
						count.Add(1)
						slots.Release()
					}
				})
			}
		}
		time.Sleep(300 * time.Second)
		stop()
		wg.Wait()
		for user, count := range served {
			if n := count.Load(); n < 290 || n > 310 {
				t.Errorf("%s was served %d times of 900", user, n)
			}
		}
	})
}

// TestRace lets the race detector see everything at once, on the real clock.
func TestRace(t *testing.T) {
	q := NewQueue(QueueOptions{Concurrent: 3, Queue: 8, Wait: 200 * time.Microsecond})
	var wg sync.WaitGroup
	var running atomic.Int64
	for client := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 2))
			for range 400 {
				weight := int64(1 + random.IntN(3))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Microsecond)
				slots, err := q.Acquire(ctx, fmt.Sprint(client%5), int(weight))
				if err == nil {
					if now := running.Add(weight); now > 3 {
						t.Errorf("%d slots are in use", now)
					}
					running.Add(-weight)
					slots.Release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	checkCounts(t, q, 0, 0)
}

func BenchmarkFree(b *testing.B) {
	q := NewQueue(QueueOptions{Concurrent: 64, Queue: 128, Wait: time.Second})
	b.ReportAllocs()
	for b.Loop() {
		slots, err := q.Acquire(b.Context(), "a", 1)
		if err != nil {
			b.Fatal(err)
		}
		slots.Release()
	}
}
