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
	// MaxBytes bounds the size of the histories of all kept threads together, in bytes.
	MaxBytes int
	// Idle is how long a thread is kept after its turn has completed.
	Idle time.Duration
	// Parked is how long a thread is kept while its turn waits for the results of tool calls; 0
	// keeps no such threads.
	Parked time.Duration
	// Spares is the maximum number of spare threads, which are started in advance without a
	// history.
	Spares int
}

// keeper stores the threads that are kept for the next requests of their conversations. The turn of
// a kept thread has completed, or is parked: a parked turn waits for the results of tool calls. If
// there are too many threads, the keeper drops the oldest thread of the user who has the most
// threads. A keeper is safe for concurrent use.
type keeper struct {
	drop func(*keptThread) // unloads a thread

	mu      sync.Mutex
	limits  Limits
	byHash  map[Hash]*list.Element
	order   *list.List // of *keptThread, the oldest first
	perUser map[string]int
	bytes   int // the size of all histories together
	parked  int // how many threads have a parked turn
	timer   *time.Timer
	firesAt time.Time // when the timer fires; zero: the timer does not run
	closed  bool

	dropReasons map[Hash]Reason // why threads were dropped, by the hashes of their histories
	dropOrder   []Hash          // the keys of dropReasons, the oldest first
}

// Reason is the reason why the keeper has dropped a thread.
type Reason string

// The reasons.
const (
	Expired  Reason = "expired"       // no request continued the thread in time
	Evicted  Reason = "evicted"       // the thread made room for newer threads
	Unusable Reason = "process_ended" // the process of the thread ended or was replaced
)

// maxDropReasons is how many entries dropReasons may have.
const maxDropReasons = 4096

// newKeeper returns an empty keeper. The keeper calls drop with each thread that it does not accept
// or that it removes, except a thread that claim returns. drop must not call the keeper.
func newKeeper(limits Limits, drop func(*keptThread)) *keeper {
	k := &keeper{
		drop:        drop,
		limits:      limits,
		byHash:      make(map[Hash]*list.Element),
		order:       list.New(),
		perUser:     make(map[string]int),
		dropReasons: make(map[Hash]Reason),
	}
	k.timer = time.AfterFunc(time.Hour, k.expire)
	k.timer.Stop()
	return k
}

// change calls f with the lock held. Then, without the lock, it drops the threads that f has
// returned.
func (k *keeper) change(f func() (removed []*keptThread)) {
	k.mu.Lock()
	removed := f()
	k.mu.Unlock()
	for _, kept := range removed {
		k.drop(kept)
	}
}

// add adds a thread. If the thread's history is too large, or the keeper is closed or may keep no
// threads, add drops the thread.
func (k *keeper) add(kept *keptThread) {
	k.change(func() []*keptThread {
		if !k.closed && k.limits.Max > 0 && kept.size <= k.limits.MaxBytes {
			return k.insert(kept)
		}
		if !k.closed {
			k.recordReason(kept.hash, Evicted)
		}
		return []*keptThread{kept}
	})
}

// insert makes room for a thread and adds it. It returns the threads that it has removed. The
// caller holds the lock.
func (k *keeper) insert(kept *keptThread) (removed []*keptThread) {
	if old := k.byHash[kept.hash]; old != nil {
		removed = append(removed, k.remove(old)) // a thread with the same history
	}
	removed = k.evict(removed, k.limits.Max-1, k.limits.MaxBytes-kept.size)
	wait := k.limits.Idle
	if kept.isParked() {
		wait = k.limits.Parked
		k.parked++
	}
	kept.expiry = time.Now().Add(wait)
	delete(k.dropReasons, kept.hash)
	k.byHash[kept.hash] = k.order.PushBack(kept)
	k.perUser[kept.user]++
	k.bytes += kept.size
	k.setTimer(kept.expiry)
	return removed
}

// evict removes threads until there are at most maxThreads, and their histories have at most
// maxBytes bytes together. It appends the removed threads to removed. The caller holds the lock.
func (k *keeper) evict(removed []*keptThread, maxThreads, maxBytes int) []*keptThread {
	for k.order.Len() > 0 && (k.order.Len() > maxThreads || k.bytes > maxBytes) {
		removed = append(removed, k.removeFor(k.victim(), Evicted))
	}
	return removed
}

// victim returns the thread to evict first: the oldest thread of the user who has the most threads.
// There must be a thread. The caller holds the lock.
func (k *keeper) victim() *list.Element {
	maxThreads := 0
	for _, n := range k.perUser {
		maxThreads = max(maxThreads, n)
	}
	e := k.order.Front()
	for k.perUser[e.Value.(*keptThread).user] < maxThreads {
		e = e.Next()
	}
	return e
}

// remove removes and returns a thread. The caller holds the lock.
func (k *keeper) remove(e *list.Element) *keptThread {
	kept := k.order.Remove(e).(*keptThread)
	delete(k.byHash, kept.hash)
	if k.perUser[kept.user]--; k.perUser[kept.user] == 0 {
		delete(k.perUser, kept.user)
	}
	k.bytes -= kept.size
	if kept.isParked() {
		k.parked--
	}
	return kept
}

// removeFor removes and returns a thread, and records the reason. The caller holds the lock.
func (k *keeper) removeFor(e *list.Element, reason Reason) *keptThread {
	k.recordReason(e.Value.(*keptThread).hash, reason)
	return k.remove(e)
}

// recordReason records why the thread with this history was dropped. The caller holds the lock.
func (k *keeper) recordReason(hash Hash, reason Reason) {
	if k.dropReasons[hash] == "" {
		if len(k.dropOrder) == maxDropReasons {
			delete(k.dropReasons, k.dropOrder[0])
			k.dropOrder = k.dropOrder[1:]
		}
		k.dropOrder = append(k.dropOrder, hash)
	}
	k.dropReasons[hash] = reason
}

// takeReason returns and forgets why the keeper has dropped the thread whose history ends with the
// last of links. It returns "" if the keeper has not dropped such a thread, or has dropped
// maxDropReasons other threads since then.
func (k *keeper) takeReason(links []Link) Reason {
	if len(links) == 0 {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := links[len(links)-1].Hash
	reason := k.dropReasons[hash]
	delete(k.dropReasons, hash)
	return reason
}

// claim removes and returns a thread whose history is the beginning of the request's history. If
// there are several, it returns the one with the longest history. links are the answers in the
// request's history. link is the last of these answers that the thread has.
func (k *keeper) claim(links []Link) (kept *keptThread, link Link, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(links) - 1; i >= 0; i-- {
		if e := k.byHash[links[i].Hash]; e != nil {
			return k.remove(e), links[i], true
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
func (k *keeper) each(f func(*keptThread)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*keptThread))
	}
}

// setLimits changes the limits, and drops threads that exceed Max or MaxBytes. Idle and Parked
// apply only to threads that are added later.
func (k *keeper) setLimits(limits Limits) {
	k.change(func() []*keptThread {
		k.limits = limits
		return k.evict(nil, limits.Max, limits.MaxBytes)
	})
}

// shrink drops half of the threads, because memory is scarce.
func (k *keeper) shrink() {
	k.change(func() []*keptThread { return k.evict(nil, k.order.Len()/2, k.limits.MaxBytes) })
}

// dropIf drops the threads for which match returns true, and records that they are [Unusable].
func (k *keeper) dropIf(match func(*keptThread) bool) {
	k.change(func() []*keptThread { return k.removeIf(Unusable, match) })
}

// close drops all threads. Threads that are added later are dropped immediately.
func (k *keeper) close() {
	k.change(func() (removed []*keptThread) {
		k.closed = true
		k.timer.Stop()
		for k.order.Len() > 0 {
			removed = append(removed, k.remove(k.order.Front()))
		}
		return removed
	})
}

// expire drops the threads that no request has claimed in time.
func (k *keeper) expire() {
	k.change(func() []*keptThread {
		k.firesAt = time.Time{}
		now := time.Now()
		removed := k.removeIf(Expired, func(kept *keptThread) bool { return !kept.expiry.After(now) })
		for e := k.order.Front(); e != nil; e = e.Next() {
			k.setTimer(e.Value.(*keptThread).expiry)
		}
		return removed
	})
}

// removeIf removes and returns the threads for which match returns true, and records the reason for
// each. The caller holds the lock.
func (k *keeper) removeIf(reason Reason, match func(*keptThread) bool) (removed []*keptThread) {
	for e, next := k.order.Front(), (*list.Element)(nil); e != nil; e = next {
		next = e.Next()
		if match(e.Value.(*keptThread)) {
			removed = append(removed, k.removeFor(e, reason))
		}
	}
	return removed
}

// setTimer makes the timer call expire at the given time or earlier. When a request claims a
// thread, the timer keeps its time, so expire may find nothing to do. The caller holds the lock.
func (k *keeper) setTimer(at time.Time) {
	if !k.closed && (k.firesAt.IsZero() || at.Before(k.firesAt)) {
		k.firesAt = at
		k.timer.Reset(max(0, time.Until(at)))
	}
}
