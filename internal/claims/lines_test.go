package claims

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newOrder returns a queue of n slots for AcquireInOrder.
func newOrder(n int) *Queue {
	return NewQueue(QueueOptions{Concurrent: n, PerUser: n, Queue: math.MaxInt})
}

func inOrder(q *Queue, user string, arrived time.Time, f func()) {
	slots := q.AcquireInOrder(user, arrived)
	defer slots.Release()
	f()
}

// TestOrderOfArrival checks that those who came first go first, at each of their steps, that no
// more run than may, and that one that panics leaves its place.
func TestOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrder(2)
		func() {
			defer func() { _ = recover() }()
			inOrder(o, "a", time.Now(), func() { panic("broken") })
		}()
		var mu sync.Mutex
		var ended []int
		start := time.Now()
		var all sync.WaitGroup
		for _, i := range []int{7, 2, 5, 0, 9, 4, 1, 8, 3, 6} {
			all.Go(func() {
				for range 3 {
					inOrder(o, "a", start.Add(time.Duration(i)), func() { time.Sleep(time.Second) })
				}
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, i)
			})
			synctest.Wait() // 7 and 2 find free places
		}
		all.Wait()
		if took := time.Since(start); took < 15*time.Second || took > 18*time.Second { // the last ones have fewer beside them
			t.Errorf("30 steps of a second took %s, two at once", took)
		}
		for at, i := range ended {
			if at-i > 3 || i-at > 3 { // a place is passed on before its holder comes for the next
				t.Errorf("ended in the order %v", ended)
			}
		}
		if o.waitingUsers.Len() != 0 || len(o.users) != 0 || o.Running() != 0 || o.Len() != 0 {
			t.Errorf("%d users wait, %d requests, %d slots are in use", o.waitingUsers.Len(), o.Len(), o.Running())
		}
	})
}

// TestSteps checks that others come between the steps of a long function: another user, and other
// requests of the same one.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrder(1)
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			slots := o.AcquireInOrder("a", start)
			for range 10 {
				time.Sleep(time.Second)
				slots.Release()
				slots = o.AcquireInOrder("a", start)
			}
			slots.Release()
			if took := time.Since(start); took != 12*time.Second {
				t.Errorf("ten steps took %s", took)
			}
		})
		time.Sleep(time.Second / 2)
		for _, user := range []string{"a", "b"} {
			all.Go(func() {
				inOrder(o, user, time.Now(), func() { time.Sleep(time.Second) })
				if took := time.Since(start); took > 4*time.Second {
					t.Errorf("%s was ready after %s", user, took)
				}
			})
		}
		all.Wait()
	})
}
