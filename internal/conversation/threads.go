package conversation

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// Limits bound the kept threads of [Threads].
type Limits struct {
	// Max is the maximum number of kept threads; 0 keeps none.
	Max int
	// MaxBytes bounds the size of the histories of all kept threads together, in bytes.
	MaxBytes int
	// Idle is how long a thread is kept after its turn has completed.
	Idle time.Duration
	// Parked is how long a thread is kept while its turn waits for results of calls; 0: not at all.
	Parked time.Duration
	// Spares is the maximum number of spare threads, started in advance without a history.
	Spares int
}

// Threads keeps an app-server's threads until requests need them. After a turn, its thread waits for the
// next request of the conversation, so that the provider finds most of the prompt in its cache. A spare
// thread waits for a first request, see spares.go. If there are too many threads with a conversation, the
// oldest thread of the user who has the most threads is dropped. Like the app-server, a Threads outlives a
// reload. It is safe for concurrent use.
type Threads struct {
	memoryScarce func() bool       // reports whether the app-server has little memory left
	unload       func(*keptThread) // unloads a thread; may be called under the lock, so it must not call Threads
	endingTurns  sync.WaitGroup    // turns that keepWhenIdle waits for

	mu         sync.Mutex
	limits     Limits
	closed     bool
	serving    *codexrpc.Conn         // the connection for new turns; nil: not known
	order      list.List              // of *keptThread: all threads that wait for a request, the oldest first
	byHash     map[Hash]*list.Element // the threads with a conversation
	announced  map[Hash]chan struct{} // for each thread that will soon be kept; closed when the thread is kept, or will not be kept
	bytes      int                    // the size of all histories together
	kinds      map[Hash]*kind         // of spare threads
	spares     int                    // how many spare threads wait or are being started
	lastShrink time.Time              // when shrink dropped threads last
	stats      status.Conversations   // the counts of events

	dropReasons map[Hash]Reason // why threads were dropped, by the hashes of their histories
	dropOrder   []Hash          // the keys of dropReasons, the oldest first
}

// Reason is the reason why a thread was dropped.
type Reason string

// The reasons.
const (
	Expired  Reason = "expired"       // no request continued the thread in time
	Evicted  Reason = "evicted"       // the thread made room for newer threads
	Unusable Reason = "process_ended" // the process of the thread ended or was replaced
)

// maxDropReasons is how many entries dropReasons may have.
const maxDropReasons = 4096

// NewThreads returns an empty Threads, which keeps fewer threads while memoryScarce returns true.
func NewThreads(limits Limits, memoryScarce func() bool) *Threads {
	return &Threads{
		memoryScarce: memoryScarce,
		unload:       func(kept *keptThread) { kept.thread.Close(nil) },
		limits:       limits,
		byHash:       make(map[Hash]*list.Element),
		announced:    make(map[Hash]chan struct{}),
		kinds:        make(map[Hash]*kind),
		dropReasons:  make(map[Hash]Reason),
		stats:        status.Conversations{Fallbacks: make(map[string]int)},
	}
}

// SetLimits changes the limits, and drops threads that exceed them. Idle and Parked apply only to
// threads that are kept later. If there are too many spare threads, all of them are dropped.
func (t *Threads) SetLimits(limits Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = limits
	t.evict(limits.Max, limits.MaxBytes)
	if t.spares > limits.Spares {
		t.dropIf(Evicted, (*keptThread).isSpare)
	}
}

// Stats returns how many threads there are now, and the counts of events since the start.
func (t *Threads) Stats() status.Conversations {
	t.mu.Lock()
	defer t.mu.Unlock()
	stats := t.stats
	stats.Fallbacks = maps.Clone(stats.Fallbacks)
	stats.Kept, stats.Spare = len(t.byHash), t.order.Len()-len(t.byHash)
	for _, e := range t.byHash {
		if e.Value.(*keptThread).isParked() {
			stats.Parked++
		}
	}
	return stats
}

// Parked returns the requests whose turns wait for the results of tool calls, the oldest first.
func (t *Threads) Parked() (parked []status.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.order.Front(); e != nil; e = e.Next() {
		if kept := e.Value.(*keptThread); kept.isParked() {
			r := kept.request
			r.State = status.Parked
			parked = append(parked, r)
		}
	}
	return parked
}

// Follow is called when the app-server has been replaced. It drops the threads on all connections
// other than serving, the connection for new turns. The old app-server ends after its last thread.
func (t *Threads) Follow(serving *codexrpc.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = serving
	t.dropIf(Unusable, func(kept *keptThread) bool { return kept.place.Conn != serving })
}

// Close drops all threads, also those that would be kept later, and waits for turns that are still ending.
func (t *Threads) Close() {
	t.mu.Lock()
	t.closed = true
	t.dropIf(Unusable, func(*keptThread) bool { return true })
	t.mu.Unlock()
	t.endingTurns.Wait()
}

// announce announces that the thread with this hash will soon be kept. A client may send its next request
// before the previous turn has completely ended: this request then waits for the thread. When the thread is
// kept, or will not be kept, the caller must call withdraw: waiting requests then go on. A second call of
// withdraw does nothing. If another thread with the same history was announced already, announce does
// nothing, and neither does withdraw.
func (t *Threads) announce(hash Hash) (withdraw func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.announced[hash] != nil {
		return func() {}
	}
	announced := make(chan struct{})
	t.announced[hash] = announced
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.announced, hash)
		close(announced)
	})
}

// announcementTimeout bounds a request's wait for a thread. Then the request goes on without that thread.
const announcementTimeout = 2 * time.Second

// awaitAnnounced waits until the thread of the newest answer is kept, if it is announced, but at
// most announcementTimeout.
func (t *Threads) awaitAnnounced(ctx context.Context, links []Link) {
	if len(links) == 0 {
		return
	}
	t.mu.Lock()
	announced := t.announced[links[len(links)-1].Hash]
	t.mu.Unlock()
	if announced == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, announcementTimeout)
	defer cancel()
	select {
	case <-announced:
	case <-ctx.Done():
	}
}

// keepWhenIdle keeps a thread as soon as it is idle, or unloads it if that takes too long. Then
// keepWhenIdle calls withdraw (see announce), so that requests no longer wait for the thread. If the thread
// is not idle yet, a goroutine does all this.
func (t *Threads) keepWhenIdle(kept *keptThread, withdraw func()) {
	if kept.isIdle() {
		t.keep(kept)
		withdraw()
		return
	}
	t.endingTurns.Go(func() {
		defer withdraw()
		kept.awaitIdle()
		t.keep(kept)
	})
}

// keep keeps a thread. It unloads the thread instead if it is not idle.
func (t *Threads) keep(kept *keptThread) {
	if !kept.isIdle() {
		t.unload(kept) // interrupts a turn that still runs
		return
	}
	t.add(kept)
	if serving := kept.place.Process.Serving(); serving != kept.place.Conn {
		t.Follow(serving) // the app-server was replaced meanwhile
	}
}

// add adds a thread with a conversation and makes room for it, or unloads it if it may not be kept.
func (t *Threads) add(kept *keptThread) {
	scarce := t.memoryScarce()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed, kept.isParked() && t.limits.Parked <= 0:
		t.unload(kept)
		return
	case scarce:
		t.shrink()
	}
	if t.limits.Max == 0 || kept.size > t.limits.MaxBytes {
		t.recordReason(kept.hash, Evicted)
		t.unload(kept)
		return
	}
	if old := t.byHash[kept.hash]; old != nil { // a thread with the same history
		t.unload(t.remove(old))
	}
	t.evict(t.limits.Max-1, t.limits.MaxBytes-kept.size)
	life := t.limits.Idle
	if kept.isParked() {
		life = t.limits.Parked
	}
	delete(t.dropReasons, kept.hash)
	t.bytes += kept.size
	t.byHash[kept.hash] = t.push(kept, life)
}

// claim removes and returns the thread with the longest history that is a beginning of the request's
// history, or nil. links are the answers in the request's history, and link is the last of them that the
// thread has. If the thread of the newest answer is announced, claim waits for that thread.
func (t *Threads) claim(ctx context.Context, links []Link) (kept *keptThread, link Link) {
	t.awaitAnnounced(ctx, links)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(links) - 1; i >= 0; i-- {
		if e := t.byHash[links[i].Hash]; e != nil {
			return t.remove(e), links[i]
		}
	}
	return nil, Link{}
}

// find returns how many tokens are in the thread that claim would return, and link. If there is no such
// thread, or that is not known, it returns 0.
func (t *Threads) find(ctx context.Context, links []Link) (tokens int, link Link) {
	t.awaitAnnounced(ctx, links)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, link := range slices.Backward(links) {
		if e := t.byHash[link.Hash]; e != nil {
			return e.Value.(*keptThread).context, link
		}
	}
	return 0, Link{}
}

// push appends a thread to the list, and drops it after the time life. The caller holds the lock.
func (t *Threads) push(kept *keptThread, life time.Duration) *list.Element {
	e := t.order.PushBack(kept)
	kept.expiry = time.AfterFunc(life, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if kept.expiry != nil {
			t.dropFor(e, Expired)
		}
	})
	return e
}

// remove removes and returns a thread. The caller holds the lock.
func (t *Threads) remove(e *list.Element) *keptThread {
	kept := t.order.Remove(e).(*keptThread)
	kept.expiry.Stop()
	kept.expiry = nil
	if kept.isSpare() {
		kept.kind.hasSpare = false
		t.spares--
		return kept
	}
	delete(t.byHash, kept.hash)
	t.bytes -= kept.size
	return kept
}

// dropFor removes and unloads a thread, and records the reason. The caller holds the lock.
func (t *Threads) dropFor(e *list.Element, reason Reason) {
	kept := t.remove(e)
	if !kept.isSpare() {
		t.recordReason(kept.hash, reason)
	}
	t.unload(kept)
}

// dropIf drops the threads for which match returns true. The caller holds the lock.
func (t *Threads) dropIf(reason Reason, match func(*keptThread) bool) {
	for e, next := t.order.Front(), (*list.Element)(nil); e != nil; e = next {
		next = e.Next()
		if match(e.Value.(*keptThread)) {
			t.dropFor(e, reason)
		}
	}
}

// evict drops threads with a conversation until there are at most maxThreads, and their histories
// have at most maxBytes bytes together. The caller holds the lock.
func (t *Threads) evict(maxThreads, maxBytes int) {
	if len(t.byHash) <= maxThreads && t.bytes <= maxBytes {
		return
	}
	perUser := make(map[string]int) // how many threads with a conversation each user has
	for _, e := range t.byHash {
		perUser[e.Value.(*keptThread).user]++
	}
	for len(t.byHash) > 0 && (len(t.byHash) > maxThreads || t.bytes > maxBytes) {
		e := t.victim(perUser)
		perUser[e.Value.(*keptThread).user]--
		t.dropFor(e, Evicted)
	}
}

// victim returns the thread to evict first: the oldest thread of the user who has the most threads.
// There must be a thread with a conversation. The caller holds the lock.
func (t *Threads) victim(perUser map[string]int) *list.Element {
	most := 0
	for _, n := range perUser {
		most = max(most, n)
	}
	for e := t.order.Front(); ; e = e.Next() {
		if kept := e.Value.(*keptThread); !kept.isSpare() && perUser[kept.user] == most {
			return e
		}
	}
}

// shrinkPause is the minimum time between two shrinks; the app-server needs it to free memory.
const shrinkPause = 10 * time.Second

// shrink drops all spare threads and half of the others, because memory is scarce, unless it has
// done so within the last shrinkPause. The caller holds the lock.
func (t *Threads) shrink() {
	if time.Since(t.lastShrink) >= shrinkPause {
		t.lastShrink = time.Now()
		t.dropIf(Evicted, (*keptThread).isSpare)
		t.evict(len(t.byHash)/2, t.limits.MaxBytes)
	}
}

// recordReason records why the thread with this history was dropped. The caller holds the lock.
func (t *Threads) recordReason(hash Hash, reason Reason) {
	if t.dropReasons[hash] == "" {
		if len(t.dropOrder) == maxDropReasons {
			delete(t.dropReasons, t.dropOrder[0])
			t.dropOrder = t.dropOrder[1:]
		}
		t.dropOrder = append(t.dropOrder, hash)
	}
	t.dropReasons[hash] = reason
}

// takeReason returns and forgets why the thread whose history ends with the last of links was dropped. It
// returns "" if no such thread was dropped, or if maxDropReasons other threads were dropped after it.
func (t *Threads) takeReason(links []Link) Reason {
	if len(links) == 0 {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := links[len(links)-1].Hash
	reason := t.dropReasons[hash]
	delete(t.dropReasons, hash)
	return reason
}

// count counts a request whose conversation has had a thread. fallback is the reason why the request could
// not go on in the thread, and this reason is counted. Without a reason, the request counts as resumed if
// its turn was parked, else as continued.
func (t *Threads) count(parked bool, fallback Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case fallback != "":
		t.stats.Fallbacks[string(fallback)]++
	case parked:
		t.stats.Resumed++
	default:
		t.stats.Continued++
	}
}

// errFollowUpMismatch means that the request does not continue the parked turn, so the turn cannot
// be resumed. The request has other results, other settings, or other items after the calls.
var errFollowUpMismatch = errors.New("the results of the calls do not follow")

// fallbackReason is a word for why a conversation could not continue in its thread; "" for nil.
func fallbackReason(err error) Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errFollowUpMismatch):
		return "other_results"
	case errors.Is(err, codexrpc.ErrClosed):
		return Unusable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, codexrpc.ErrTimeout):
		return "timeout"
	}
	return "refused"
}
