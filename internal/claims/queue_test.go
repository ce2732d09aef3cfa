package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// take gets slots that must be free.
func take(t testing.TB, q *Queue, user string, weight int) (release func()) {
	t.Helper()
	q.opts.Crowd.Note(user)
	slots, err := q.Acquire(t.Context(), user, weight)
	must.OK(t, err)
	return slots.Release
}

func checkCounts(t testing.TB, q *Queue, running, waiting int) {
	t.Helper()
	if q.Running() != running || q.Len() != waiting {
		t.Errorf("%d running and %d waiting, want %d and %d", q.Running(), q.Len(), running, waiting)
	}
}

func TestFreeSlots(t *testing.T) {
	q := NewQueue(QueueOptions{Concurrent: 4})
	light, heavy := take(t, q, "a", 0), take(t, q, "b", 3)
	checkCounts(t, q, 4, 0)
	heavy()
	heavy() // once more makes no difference
	checkCounts(t, q, 1, 0)
	light()
	checkCounts(t, q, 0, 0)
}

func TestRefusals(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	cancel(left)
	q := NewQueue(QueueOptions{Concurrent: 2})
	for what, test := range map[string]struct {
		ctx    context.Context
		weight int
		want   error
	}{
		"too heavy": {t.Context(), 3, ErrTooHeavy},
		"gone":      {gone, 1, left},
	} {
		if _, err := q.Acquire(test.ctx, "a", test.weight); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	release := take(t, q, "a", 2)
	if _, err := q.Acquire(t.Context(), "b", 1); !errors.Is(err, ErrFull) {
		t.Errorf("without a queue: %v", err)
	}
	release()
	take(t, q, "b", 2)()
	checkCounts(t, q, 0, 0)
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 1, Queue: 1, Wait: time.Minute})
		release := take(t, q, "a", 1)
		start := time.Now()
		if _, err := q.Acquire(t.Context(), "a", 1); !errors.Is(err, ErrTimeout) || time.Since(start) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		left := errors.New("left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
		defer cancel()
		if _, err := q.Acquire(ctx, "a", 1); !errors.Is(err, left) {
			t.Errorf("a caller that left: %v", err)
		}
		time.AfterFunc(time.Second, release)
		start = time.Now()
		take(t, q, "a", 1)()
		if time.Since(start) != time.Second {
			t.Errorf("the slot was taken after %s", time.Since(start))
		}
		checkCounts(t, q, 0, 0)
	})
}

// TestOrder lets requests of users wait for the only slot: the users take turns, each with its requests
// in their order.
func TestOrder(t *testing.T) {
	for requests, want := range map[string]string{
		"a":                 "a",
		"a a b":             "a b a",
		"a a a a b b c":     "a b c a b a a",
		"b a a a c":         "b a c a a",
		"a b c c b a a b c": "a b c a b c a b c",
	} {
		synctest.Test(t, func(t *testing.T) {
			var served []string
			q := NewQueue(QueueOptions{Concurrent: 1, Queue: 100, Wait: time.Hour})
			release := take(t, q, "first", 1)
			for _, user := range strings.Fields(requests) {
				go func() {
					release := take(t, q, user, 1)
					// One after the other: a second passes after all that ran before.
					time.Sleep(time.Second)
					served = append(served, user)
					release()
				}()
				synctest.Wait()
			}
			release()
			time.Sleep(time.Hour / 2)
			checkCounts(t, q, 0, 0)
			if got := strings.Join(served, " "); got != want {
				t.Errorf("%s is served %s, want %s", requests, got, want)
			}
		})
	}
}

// A request for many slots gets them when it is its turn, whatever else would fit meanwhile.
func TestHeavyIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 3, Queue: 1000, Wait: time.Hour})
		var releases []func()
		for range 3 {
			releases = append(releases, take(t, q, "light", 1))
		}
		served := make(chan int64, 1)
		var light atomic.Int64
		go func() {
			slots, err := q.Acquire(t.Context(), "heavy", 3)
			if err != nil {
				t.Error(err)
				return
			}
			served <- light.Load()
			slots.Release()
		}()
		synctest.Wait()
		for range 20 { // one goes, another comes: there is never more than one slot free
			go func() {
				slots, err := q.Acquire(t.Context(), "light", 1)
				if err != nil {
					t.Error(err)
					return
				}
				light.Add(1)
				slots.Release()
			}()
			synctest.Wait()
		}
		for _, release := range releases {
			if n := light.Load(); n != 0 {
				t.Fatalf("%d came before the one whose turn it was", n)
			}
			release()
			synctest.Wait()
		}
		if before := <-served; before != 0 {
			t.Errorf("%d light ones were served before", before)
		}
		if n := light.Load(); n != 20 {
			t.Errorf("%d light ones were served", n)
		}
	})
}

// One user cannot fill the queue for the others: the newest of the longest line
// makes room, as long as that makes the lines more even.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 1, Queue: 4, Wait: time.Minute})
		release := take(t, q, "a", 1)
		var ends []string
		wait := func(name string) {
			go func() {
				slots, err := q.Acquire(t.Context(), name[:1], 1)
				if err != nil {
					ends = append(ends, name+": "+err.Error())
					return
				}
				ends = append(ends, name)
				slots.Release()
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "a5", "b3", "c1", "d1"} {
			wait(name)
		}
		release()
		synctest.Wait()
		full := ": " + ErrFull.Error()
		want := []string{"a4" + full, "a3" + full, "a5" + full, "b3" + full, "a2" + full, "b2" + full, "a1", "b1", "c1", "d1"}
		if !slices.Equal(ends, want) {
			t.Errorf("they end %q, want %q", ends, want)
		}
		checkCounts(t, q, 0, 0)
		if len(q.users) != 0 {
			t.Errorf("%d users are remembered", len(q.users))
		}
	})
}

// TestRandomly: whoever comes, waits, gives up and goes at whatever moment, there are never more
// running than allowed, nor more waiting, no request waits while it may have its slots, Full says
// what Acquire then does, and in the end no slot is lost.
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
		must.OK(b, err)
		slots.Release()
	}
}
