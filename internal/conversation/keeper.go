package conversation

import (
	"container/list"
	"sync"
	"time"
)

// Limits bound the kept threads of [Threads].
type Limits struct {
	// Max is the maximum number of kept threads; 0 keeps none.
	Max int
	// MaxBytes bounds the sum of the sizes of their histories, in bytes.
	MaxBytes int
	// Idle is how long a thread is kept after its turn has completed.
	Idle time.Duration
	// Parked is how long a thread is kept whose turn waits for the results of tool calls.
	Parked time.Duration
	// Spares is the maximum number of spare threads, which are started in advance without a
	// history.
	Spares int
}

// keeper has the threads that are kept for the next requests of their conversations. The turn of
// such a thread has finished or is parked: it waits for the results of tool calls. If there are too
// many threads, the keeper drops the oldest thread of the user who has the most threads. A keeper
// is safe for concurrent use.
type keeper struct {
	drop func(*kept)

	mu      sync.Mutex
	limits  Limits
	byHash  map[Hash]*list.Element
	order   *list.List // of *kept, the oldest first
	perUser map[string]int
	bytes   int
	parked  int
	timer   *time.Timer
	rings   time.Time // when the timer fires; zero: it does not run
	closed  bool

	lost  map[Hash]Reason // why threads were dropped
	trail []Hash          // of lost, the oldest first
}

// Reason is the reason why the keeper has dropped a thread.
type Reason string

// The reasons.
const (
	Expired  Reason = "expired"       // no request continued it in time
	Evicted  Reason = "evicted"       // it made room for newer threads
	Unusable Reason = "process_ended" // its process ended or was replaced
)

// maxLost is how many reasons of dropped threads the keeper remembers.
const maxLost = 4096

// newKeeper returns an empty keeper. The keeper calls drop with each thread that it removes, except
// a thread that claim returns. drop must not call the keeper.
func newKeeper(limits Limits, drop func(*kept)) *keeper {
	k := &keeper{
		drop:    drop,
		limits:  limits,
		byHash:  make(map[Hash]*list.Element),
		order:   list.New(),
		perUser: make(map[string]int),
		lost:    make(map[Hash]Reason),
	}
	k.timer = time.AfterFunc(time.Hour, k.expire)
	k.timer.Stop()
	return k
}

// change calls f with the lock held, and then drops the threads that f has removed and returns.
func (k *keeper) change(f func() (out []*kept)) {
	k.mu.Lock()
	out := f()
	k.mu.Unlock()
	for _, one := range out {
		k.drop(one)
	}
}

// add adds a thread. It drops the thread at once if the thread's history is too large, or if the
// keeper keeps no threads.
func (k *keeper) add(one *kept) {
	k.change(func() []*kept {
		if !k.closed && k.limits.Max > 0 && one.size <= k.limits.MaxBytes {
			return k.put(one)
		}
		if !k.closed {
			k.lose(one.hash, Evicted)
		}
		return []*kept{one}
	})
}

// put makes room for a thread and adds it. It returns the threads that it has removed. The caller
// holds the lock.
func (k *keeper) put(one *kept) (out []*kept) {
	if old := k.byHash[one.hash]; old != nil {
		out = append(out, k.take(old)) // it holds the same history
	}
	out = k.evict(out, k.limits.Max-1, k.limits.MaxBytes-one.size)
	wait := k.limits.Idle
	if one.parked() {
		wait = k.limits.Parked
		k.parked++
	}
	one.until = time.Now().Add(wait)
	delete(k.lost, one.hash)
	k.byHash[one.hash] = k.order.PushBack(one)
	k.perUser[one.user]++
	k.bytes += one.size
	k.ringBy(one.until)
	return out
}

// evict removes threads until both limits are met: most for the number of threads, and bytes for
// the size of all their histories. It appends the removed threads to out. The caller holds the
// lock.
func (k *keeper) evict(out []*kept, most, bytes int) []*kept {
	for k.order.Len() > 0 && (k.order.Len() > most || k.bytes > bytes) {
		out = append(out, k.letGo(k.victim(), Evicted))
	}
	return out
}

// victim returns the oldest thread of the user who has the most threads. There must be a thread.
// The caller holds the lock.
func (k *keeper) victim() *list.Element {
	most := 0
	for _, n := range k.perUser {
		most = max(most, n)
	}
	e := k.order.Front()
	for k.perUser[e.Value.(*kept).user] < most {
		e = e.Next()
	}
	return e
}

// take removes a thread. The caller holds the lock.
func (k *keeper) take(e *list.Element) *kept {
	one := k.order.Remove(e).(*kept)
	delete(k.byHash, one.hash)
	if k.perUser[one.user]--; k.perUser[one.user] == 0 {
		delete(k.perUser, one.user)
	}
	k.bytes -= one.size
	if one.parked() {
		k.parked--
	}
	return one
}

// letGo removes a thread that no request has claimed, and records the reason. The caller holds the
// lock.
func (k *keeper) letGo(e *list.Element, why Reason) *kept {
	k.lose(e.Value.(*kept).hash, why)
	return k.take(e)
}

// lose records why the thread with this history was dropped. The caller holds the lock.
func (k *keeper) lose(hash Hash, why Reason) {
	if k.lost[hash] == "" {
		if len(k.trail) == maxLost {
			delete(k.lost, k.trail[0])
			k.trail = k.trail[1:]
		}
		k.trail = append(k.trail, hash)
	}
	k.lost[hash] = why
}

// whyLost returns why the keeper has dropped the thread whose history ends with the last of links,
// and forgets the reason. It returns "" if the keeper has dropped no such thread, or has dropped
// maxLost other threads since then.
func (k *keeper) whyLost(links []Link) Reason {
	if len(links) == 0 {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := links[len(links)-1].Hash
	why := k.lost[hash]
	delete(k.lost, hash)
	return why
}

// claim removes and returns the thread whose history is the longest beginning of the request's
// history. links are the answers in the request's history. at is the last of these answers that the
// thread has.
func (k *keeper) claim(links []Link) (one *kept, at Link, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(links) - 1; i >= 0; i-- {
		if e := k.byHash[links[i].Hash]; e != nil {
			return k.take(e), links[i], true
		}
	}
	return nil, Link{}, false
}

// counts returns how many threads are kept, and how many of these are parked.
func (k *keeper) counts() (kept, parked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.order.Len(), k.parked
}

// each calls f with each thread, the oldest first. f must be quick and must not call the keeper.
func (k *keeper) each(f func(*kept)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*kept))
	}
}

// setLimits changes the limits, and drops threads that exceed the new ones. The other kept threads
// expire at the same time as before.
func (k *keeper) setLimits(limits Limits) {
	k.change(func() []*kept {
		k.limits = limits
		return k.evict(nil, limits.Max, limits.MaxBytes)
	})
}

// shrink drops half of the threads, because memory is scarce.
func (k *keeper) shrink() {
	k.change(func() []*kept { return k.evict(nil, k.order.Len()/2, k.limits.MaxBytes) })
}

// dropIf drops the threads for which holds returns true, since no request can continue them.
func (k *keeper) dropIf(holds func(*kept) bool) {
	k.change(func() []*kept { return k.letGoIf(Unusable, holds) })
}

// close drops all threads. Threads that are added later are dropped at once.
func (k *keeper) close() {
	k.change(func() (out []*kept) {
		k.closed = true
		k.timer.Stop()
		for k.order.Len() > 0 {
			out = append(out, k.take(k.order.Front()))
		}
		return out
	})
}

// expire drops the threads that no request has claimed in time.
func (k *keeper) expire() {
	k.change(func() []*kept {
		k.rings = time.Time{}
		now := time.Now()
		out := k.letGoIf(Expired, func(one *kept) bool { return !one.until.After(now) })
		for e := k.order.Front(); e != nil; e = e.Next() {
			k.ringBy(e.Value.(*kept).until)
		}
		return out
	})
}

// letGoIf removes the threads for which holds returns true. The caller holds the lock.
func (k *keeper) letGoIf(why Reason, holds func(*kept) bool) (out []*kept) {
	for e, next := k.order.Front(), (*list.Element)(nil); e != nil; e = next {
		next = e.Next()
		if holds(e.Value.(*kept)) {
			out = append(out, k.letGo(e, why))
		}
	}
	return out
}

// ringBy makes the timer call expire at this time or earlier. The timer is not stopped when a
// request claims the thread that would expire, so expire may find nothing to do. The caller holds
// the lock.
func (k *keeper) ringBy(at time.Time) {
	if !k.closed && (k.rings.IsZero() || at.Before(k.rings)) {
		k.rings = at
		k.timer.Reset(max(0, time.Until(at)))
	}
}
