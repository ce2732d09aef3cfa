package conversation

import (
	"container/list"
	"sync"
	"time"
)

// Limits bound what [Threads] keep.
type Limits struct {
	// Max is the most threads; 0 keeps none.
	Max int
	// MaxBytes is the most bytes that the histories may have together.
	MaxBytes int
	// Idle is how long a thread is kept after its turn.
	Idle time.Duration
	// Parked is how long a turn waits for the results of its calls.
	Parked time.Duration
	// Spares is the most threads without a history that wait for a conversation.
	Spares int
}

// keeper holds threads for the next requests of their conversations. Their turns have finished, or
// wait for the results of calls (parked). When there are too many threads, the keeper drops the
// oldest thread of the user who has the most. All methods are safe for concurrent use.
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

// Reason says why a thread was dropped.
type Reason string

// The reasons.
const (
	Expired  Reason = "expired"       // no request continued it in time
	Evicted  Reason = "evicted"       // it made room for newer threads
	Unusable Reason = "process_ended" // its process ended or was replaced
)

// maxLost bounds the dropped threads whose reason is remembered.
const maxLost = 4096

// newKeeper makes an empty keeper. The keeper calls drop with each thread that it removes before a
// request has claimed it. drop must not call the keeper.
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

// change calls f with the lock held, and then drops the threads that f has taken out.
func (k *keeper) change(f func() (out []*kept)) {
	k.mu.Lock()
	out := f()
	k.mu.Unlock()
	for _, one := range out {
		k.drop(one)
	}
}

// add keeps a thread. A thread with too large a history is dropped at once.
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

// put makes room for a thread and keeps it. The lock is held.
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

// evict removes threads until no more than most are left, with histories of no more than
// bytes together, and appends the removed ones to out. The lock is held.
func (k *keeper) evict(out []*kept, most, bytes int) []*kept {
	for k.order.Len() > 0 && (k.order.Len() > most || k.bytes > bytes) {
		out = append(out, k.letGo(k.victim(), Evicted))
	}
	return out
}

// victim is the oldest thread of the user who has the most. The lock is held, and
// there is a thread.
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

// take removes a thread. The lock is held.
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

// letGo removes a thread that nobody has claimed. The lock is held.
func (k *keeper) letGo(e *list.Element, why Reason) *kept {
	k.lose(e.Value.(*kept).hash, why)
	return k.take(e)
}

// lose records why there is no thread with a history. The lock is held.
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

// whyLost returns why the keeper dropped the thread that holds a history up to its last answer. It
// then forgets the reason. It returns "" if no such thread was dropped, or if the reason is
// forgotten since many other threads were dropped later.
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

// claim removes the thread that holds the most of a history and gives it to the caller. at is the
// end of the part that the thread holds.
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

// counts is how many threads are kept, and how many of them are parked.
func (k *keeper) counts() (kept, parked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.order.Len(), k.parked
}

// each calls f with each thread, the oldest first. f must be quick and must not call back.
func (k *keeper) each(f func(*kept)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*kept))
	}
}

// setLimits changes the limits, also for threads that are kept already. But the threads that are
// kept already expire at the same time as before.
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

// dropIf drops the threads for which holds returns true, since they cannot be continued.
func (k *keeper) dropIf(holds func(*kept) bool) {
	k.change(func() []*kept { return k.letGoIf(Unusable, holds) })
}

// close drops all threads, also those that are put later.
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

// expire drops the threads whose time is over.
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

// letGoIf removes the threads for which a condition holds. The lock is held.
func (k *keeper) letGoIf(why Reason, holds func(*kept) bool) (out []*kept) {
	for e, next := k.order.Front(), (*list.Element)(nil); e != nil; e = next {
		next = e.Next()
		if holds(e.Value.(*kept)) {
			out = append(out, k.letGo(e, why))
		}
	}
	return out
}

// ringBy makes the timer fire at this time at the latest. The timer is not stopped when a thread is
// claimed: it may fire and find nothing to do. The lock is held.
func (k *keeper) ringBy(at time.Time) {
	if !k.closed && (k.rings.IsZero() || at.Before(k.rings)) {
		k.rings = at
		k.timer.Reset(max(0, time.Until(at)))
	}
}
