package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hoard takes single slots for a user until none is given at once, and returns how many it got.
func hoard(t *testing.T, q *Queue, user string) (slots int) {
	t.Helper()
	q.opts.Crowd.Note(user)
	for {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := q.Acquire(ctx, user, 1)
		cancel()
		if err != nil {
			return slots
		}
		slots++
	}
}

// TestShare: how many slots users get who want all of them.
func TestShare(t *testing.T) {
	for name, c := range map[string]struct {
		opts  QueueOptions
		users []string // the last is asked for first, once, and then holds nothing
		want  string
	}{
		"one of several":      {QueueOptions{Concurrent: 64, Crowd: NewCrowd(func() bool { return true })}, []string{"a"}, "[56]"},
		"one user":            {QueueOptions{Concurrent: 64}, []string{"a"}, "[64]"},
		"without names":       {QueueOptions{Concurrent: 64}, []string{"", "b"}, "[64 0]"},
		"one, another idle":   {QueueOptions{Concurrent: 64}, []string{"a", "idle"}, "[56 7]"},
		"three":               {QueueOptions{Concurrent: 64}, []string{"a", "b", "c"}, "[56 7 1]"},
		"one slot":            {QueueOptions{Concurrent: 1}, []string{"a", "b"}, "[1 0]"},
		"two slots":           {QueueOptions{Concurrent: 2}, []string{"a", "b", "c"}, "[1 1 0]"},
		"a limit":             {QueueOptions{Concurrent: 64, PerUser: 10}, []string{"a", "b"}, "[10 10]"},
		"a limit for one":     {QueueOptions{Concurrent: 64, PerUser: 10}, []string{"a"}, "[10]"},
		"a limit, no names":   {QueueOptions{Concurrent: 64, PerUser: 10}, []string{""}, "[10]"},
		"a limit that is all": {QueueOptions{Concurrent: 8, PerUser: 8}, []string{"a", "b"}, "[8 0]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.opts.Queue, c.opts.Wait = 10, time.Hour
				q := NewQueue(c.opts)
				take(t, q, c.users[len(c.users)-1], 1)()
				var got []int
				for _, user := range c.users {
					got = append(got, hoard(t, q, user))
				}
				if fmt.Sprint(got) != c.want {
					t.Errorf("%v, want %s", got, c.want)
				}
			})
		})
	}
}

// TestShareEnds: who has not asked for an hour leaves all slots to the one who has.
func TestShareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 8, Queue: 1, Wait: time.Minute})
		take(t, q, "b", 1)()
		if got := hoard(t, q, "a"); got != 7 {
			t.Errorf("%d slots while another is about", got)
		}
		time.Sleep(window)
		if got := hoard(t, q, "a"); got != 1 {
			t.Errorf("%d slots more when nobody else is", got)
		}
	})
}

// TestShareOfChoices: requests for several slots keep to the share, unless their
// user has nothing else.
func TestShareOfChoices(t *testing.T) {
	q := NewQueue(QueueOptions{Concurrent: 64})
	take(t, q, "b", 1)()
	for range 7 {
		take(t, q, "a", 8)
	}
	if _, err := q.Acquire(t.Context(), "a", 1); !errors.Is(err, ErrFull) {
		t.Error("above the share:", err)
	}
	take(t, q, "b", 8)
	checkCounts(t, q, 64, 0)
	q = NewQueue(QueueOptions{Concurrent: 64, PerUser: 5})
	if _, err := q.Acquire(t.Context(), "a", 6); !errors.Is(err, ErrTooHeavy) {
		t.Error("a request above the limit of its user:", err)
	}
}

// TestPassed: a user who holds his share waits alone.
func TestPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{Concurrent: 8, PerUser: 6, Queue: 10, Wait: time.Hour})
		release := take(t, q, "a", 6)
		var got time.Duration
		start := time.Now()
		go func() {
			take(t, q, "a", 2)()
			got = time.Since(start)
		}()
		synctest.Wait()
		if q.Full("b") {
			t.Error("the queue is full for another")
		}
		take(t, q, "b", 2)()
		take(t, q, "b", 1)()
		checkCounts(t, q, 6, 1)
		time.Sleep(time.Minute)
		release()
		synctest.Wait()
		if got != time.Minute {
			t.Errorf("the one that waited was served after %s", got)
		}
		checkCounts(t, q, 0, 0)
	})
}

// TestNewcomer: however many slots a user wants, in requests for one or several,
// whoever comes next gets one at once.
func TestNewcomer(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { newcomer(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func newcomer(t *testing.T, random *rand.Rand) {
	slots := 2 + random.IntN(70)
	heaviest := 1 + random.IntN(slots-1) // all of them at once is more than can be shared
	q := NewQueue(QueueOptions{Concurrent: slots, Queue: 1000, Wait: time.Hour})
	take(t, q, "newcomer", 1)()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 * slots {
		weight, work := 1+random.IntN(heaviest), time.Duration(1+random.IntN(60))*time.Second
		wg.Go(func() {
			for ctx.Err() == nil {
				slots, err := q.Acquire(ctx, "greedy", weight)
				if err != nil {
					return
				}
				time.Sleep(work)
				slots.Release()
			}
		})
	}
	for range 100 {
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
		synctest.Wait()
		checkState(t, q)
		start := time.Now()
		release := take(t, q, "newcomer", 1)
		if waited := time.Since(start); waited > 0 {
			t.Errorf("of %d slots none was free for %s", slots, waited)
		}
		release()
	}
	stop()
	wg.Wait()
}
