package conversation

import (
	"container/list"
	"sync"
	"time"
)

// Limits bound what a [Keeper] holds.
type Limits struct {
	// Max is the most threads; 0 keeps none.
	Max int
	// MaxBytes is the most bytes that the histories may have together.
	MaxBytes int
	// Idle is how long a thread is kept after its turn.
	Idle time.Duration
	// Parked is how long a turn waits for the results of its calls.
	Parked time.Duration
	// Spares is the most threads without a history that wait for a conversation. They are
	// not a [Keeper]'s.
	Spares int
}

// Kept is a thread with the history that it holds.
type Kept[T any] struct {
	// Hash names the history.
	Hash Hash
	// User is whose it is. When there is no room, who has the most makes it.
	User string
	// Bytes is the size of the history.
	Bytes int
	// Parked says that its turn waits for the results of calls.
	Parked bool
	// Thread is what goes on.
	Thread T

	until time.Time
}

// Keeper holds the threads of finished and of parked turns until they are claimed.
// When there are too many, the oldest of the user who has the most is let go of.
// All methods are safe for concurrent use.
type Keeper[T any] struct {
	drop func(T)

	mu      sync.Mutex
	limits  Limits
	byHash  map[Hash]*list.Element
	order   *list.List // of *Kept[T], the oldest first
	perUser map[string]int
	bytes   int
	parked  int
	timer   *time.Timer
	rings   time.Time // when the timer rings; zero: it is not set
	closed  bool

	lost  map[Hash]Reason // threads that were let go of
	trail []Hash          // of lost, the oldest first
}

// Reason says why a thread was let go of.
type Reason string

// The reasons.
const (
	Expired  Reason = "expired"       // nobody came for it in time
	Evicted  Reason = "evicted"       // for newer ones
	Unusable Reason = "process_ended" // or its process was replaced
)

// maxLost bounds the threads of which the reason is known.
const maxLost = 4096

// NewKeeper makes an empty keeper. It calls drop with each thread that it lets go
// of unclaimed; drop must not call it back.
func NewKeeper[T any](limits Limits, drop func(T)) *Keeper[T] {
	k := &Keeper[T]{
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

// change calls f with the lock held, and then drops what f has taken out.
func (k *Keeper[T]) change(f func() (out []T)) {
	k.mu.Lock()
	out := f()
	k.mu.Unlock()
	for _, one := range out {
		k.drop(one)
	}
}

// Put keeps a thread. One that has too large a history is dropped at once.
func (k *Keeper[T]) Put(one Kept[T]) {
	k.change(func() []T {
		if !k.closed && k.limits.Max > 0 && one.Bytes <= k.limits.MaxBytes {
			return k.put(&one)
		}
		if !k.closed {
			k.lose(one.Hash, Evicted)
		}
		return []T{one.Thread}
	})
}

// put makes room for a thread and keeps it. The lock is held.
func (k *Keeper[T]) put(one *Kept[T]) (out []T) {
	if old := k.byHash[one.Hash]; old != nil {
		out = append(out, k.take(old)) // it holds the same
	}
	out = k.evict(out, k.limits.Max-1, k.limits.MaxBytes-one.Bytes)
	wait := k.limits.Idle
	if one.Parked {
		wait = k.limits.Parked
		k.parked++
	}
	one.until = time.Now().Add(wait)
	delete(k.lost, one.Hash)
	k.byHash[one.Hash] = k.order.PushBack(one)
	k.perUser[one.User]++
	k.bytes += one.Bytes
	k.ringBy(one.until)
	return out
}

// evict lets go of threads until there are no more than so many, with histories of
// no more than so many bytes, and appends them to out. The lock is held.
func (k *Keeper[T]) evict(out []T, most, bytes int) []T {
	for k.order.Len() > 0 && (k.order.Len() > most || k.bytes > bytes) {
		out = append(out, k.letGo(k.victim(), Evicted))
	}
	return out
}

// victim is the oldest thread of the user who has the most. The lock is held, and
// there is a thread.
func (k *Keeper[T]) victim() *list.Element {
	most := 0
	for _, n := range k.perUser {
		most = max(most, n)
	}
	e := k.order.Front()
	for k.perUser[e.Value.(*Kept[T]).User] < most {
		e = e.Next()
	}
	return e
}

// take takes a thread out. The lock is held.
func (k *Keeper[T]) take(e *list.Element) T {
	one := k.order.Remove(e).(*Kept[T])
	delete(k.byHash, one.Hash)
	if k.perUser[one.User]--; k.perUser[one.User] == 0 {
		delete(k.perUser, one.User)
	}
	k.bytes -= one.Bytes
	if one.Parked {
		k.parked--
	}
	return one.Thread
}

// letGo takes a thread out that nobody has claimed. The lock is held.
func (k *Keeper[T]) letGo(e *list.Element, why Reason) T {
	k.lose(e.Value.(*Kept[T]).Hash, why)
	return k.take(e)
}

// lose records why there is no thread with a history. The lock is held.
func (k *Keeper[T]) lose(hash Hash, why Reason) {
	if k.lost[hash] == "" {
		if len(k.trail) == maxLost {
			delete(k.lost, k.trail[0])
			k.trail = k.trail[1:]
		}
		k.trail = append(k.trail, hash)
	}
	k.lost[hash] = why
}

// Lost returns, once, why the thread that held all of a history but its newest messages
// is not there any more. The reason is empty if there was none, or if that is too long ago.
func (k *Keeper[T]) Lost(links []Link) Reason {
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

// Claim takes out the thread that holds the most of a history: the caller has it
// alone from now on.
func (k *Keeper[T]) Claim(links []Link) (one Kept[T], at Link, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(links) - 1; i >= 0; i-- {
		if e := k.byHash[links[i].Hash]; e != nil {
			one = *e.Value.(*Kept[T])
			k.take(e)
			return one, links[i], true
		}
	}
	return Kept[T]{}, Link{}, false
}

// Counts is how many threads are kept, and how many of them are parked.
func (k *Keeper[T]) Counts() (kept, parked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.order.Len(), k.parked
}

// Each calls f with each thread, the oldest first. f must be quick and must not call back.
func (k *Keeper[T]) Each(f func(T)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*Kept[T]).Thread)
	}
}

// SetLimits changes the limits, for what is kept already as well. It keeps as long
// as it was to be kept.
func (k *Keeper[T]) SetLimits(limits Limits) {
	k.change(func() []T {
		k.limits = limits
		return k.evict(nil, limits.Max, limits.MaxBytes)
	})
}

// Shrink lets go of half of the threads, for want of memory.
func (k *Keeper[T]) Shrink() {
	k.change(func() []T { return k.evict(nil, k.order.Len()/2, k.limits.MaxBytes) })
}

// DropIf lets go of the threads of which it holds, since they cannot go on.
func (k *Keeper[T]) DropIf(holds func(T) bool) {
	k.change(func() []T { return k.letGoIf(Unusable, func(one *Kept[T]) bool { return holds(one.Thread) }) })
}

// Close lets go of all, and of what will still be put.
func (k *Keeper[T]) Close() {
	k.change(func() (out []T) {
		k.closed = true
		k.timer.Stop()
		for k.order.Len() > 0 {
			out = append(out, k.take(k.order.Front()))
		}
		return out
	})
}

// expire lets go of the threads whose time is over.
func (k *Keeper[T]) expire() {
	k.change(func() []T {
		k.rings = time.Time{}
		now := time.Now()
		out := k.letGoIf(Expired, func(one *Kept[T]) bool { return !one.until.After(now) })
		for e := k.order.Front(); e != nil; e = e.Next() {
			k.ringBy(e.Value.(*Kept[T]).until)
		}
		return out
	})
}

// letGoIf takes out the threads of which it holds. The lock is held.
func (k *Keeper[T]) letGoIf(why Reason, holds func(*Kept[T]) bool) (out []T) {
	for e, next := k.order.Front(), (*list.Element)(nil); e != nil; e = next {
		next = e.Next()
		if holds(e.Value.(*Kept[T])) {
			out = append(out, k.letGo(e, why))
		}
	}
	return out
}

// ringBy makes the timer ring at a time or before. Nothing is done for a thread that is
// claimed: the timer finds then that nothing is due. The lock is held.
func (k *Keeper[T]) ringBy(at time.Time) {
	if !k.closed && (k.rings.IsZero() || at.Before(k.rings)) {
		k.rings = at
		k.timer.Reset(max(0, time.Until(at)))
	}
}
