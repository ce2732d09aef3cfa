package conversation

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Threads keeps threads of one app-server after their turns. The next requests of the same
// conversations continue on these threads, so that the model's provider finds most of the prompt in
// its cache. Like the app-server, a Threads stays in use when the configuration is reloaded. It is
// safe for concurrent use.
type Threads struct {
	announcements announcements // of threads that will soon be kept
	keeper        *keeper
	spares        spares
	memoryScarce  func() bool    // reports whether the app-server has little memory left
	endingTurns   sync.WaitGroup // turns that keepWhenIdle waits for

	mu         sync.Mutex
	parksTurns bool                 // threads are kept while their turns wait for results
	lastShrink time.Time            // when shrink dropped threads last
	stats      status.Conversations // without the counts of keeper and spares
}

// NewThreads returns an empty Threads. memoryScarce reports whether the memory of the app-server is
// scarce; if so, fewer threads are kept.
func NewThreads(limits Limits, memoryScarce func() bool) *Threads {
	t := &Threads{memoryScarce: memoryScarce, stats: status.Conversations{Fallbacks: make(map[string]int)}}
	t.keeper = newKeeper(limits, func(kept *keptThread) { kept.thread.Close(nil) })
	t.SetLimits(limits)
	return t
}

// SetLimits changes the limits, and drops threads that exceed them.
func (t *Threads) SetLimits(limits Limits) {
	t.mu.Lock()
	t.parksTurns = limits.Parked > 0
	t.mu.Unlock()
	t.keeper.setLimits(limits)
	t.spares.setLimit(limits.Spares)
}

// Stats returns how many threads there are now, and the counts of events since the start.
func (t *Threads) Stats() status.Conversations {
	kept, parked := t.keeper.counts()
	spare, prepared := t.spares.counts()
	t.mu.Lock()
	defer t.mu.Unlock()
	stats := t.stats
	stats.Kept, stats.Parked, stats.Fallbacks = kept, parked, maps.Clone(stats.Fallbacks)
	stats.Spare, stats.Prepared = spare, prepared
	return stats
}

// Parked returns the requests whose turns are parked (wait for the results of tool calls), the
// oldest first.
func (t *Threads) Parked() []status.Request {
	var parked []status.Request
	t.keeper.each(func(kept *keptThread) {
		if kept.isParked() {
			r := kept.request
			r.State = status.Parked
			parked = append(parked, r)
		}
	})
	return parked
}

// Follow is called when the app-server has been replaced. It drops the threads on all connections
// other than serving, the connection for new turns. The old app-server ends after its last thread.
func (t *Threads) Follow(serving *codexrpc.Conn) {
	t.keeper.dropIf(func(kept *keptThread) bool { return kept.place.Conn != serving })
	t.spares.follow(serving)
}

// shrinkPause is the minimum time between two calls of shrink that drop threads. The app-server
// needs this time to free memory.
const shrinkPause = 10 * time.Second

// shrink drops half of the kept threads and all spare threads, if memory is scarce and shrink has
// not dropped threads within the last shrinkPause.
func (t *Threads) shrink() {
	if !t.memoryScarce() {
		return
	}
	t.mu.Lock()
	due := time.Since(t.lastShrink) >= shrinkPause
	if due {
		t.lastShrink = time.Now()
	}
	t.mu.Unlock()
	if due {
		t.spares.dropIf(func(spare) bool { return true })
		t.keeper.shrink()
	}
}

// Close drops all threads. It waits for the turns that keepWhenIdle waits for, and drops their
// threads, too.
func (t *Threads) Close() {
	t.keeper.close()
	t.spares.close()
	t.endingTurns.Wait()
}

// keptThread is a thread that is kept for the next request of its conversation, with the hash of
// its history.
type keptThread struct {
	hash         Hash   // identifies the history
	user         string // the owner of the conversation
	size         int    // of the history, in bytes
	thread       *codexrpc.Thread
	place        Place
	usage        codexrpc.Usage // the tokens of all turns so far
	pendingCalls []string       // the ids of the calls whose results the parked turn waits for; empty: it is not parked
	schema       string         // the JSON Schema of the answer of the last turn; empty: none
	effort       string         // the reasoning effort of the last turn; empty: the model's default
	request      status.Request // the last request, as of the end of its answer
	expiry       time.Time      // when the keeper drops the thread
}

// isParked reports whether the thread's turn waits for the results of tool calls.
func (k *keptThread) isParked() bool { return len(k.pendingCalls) > 0 }

// isIdle reports whether the thread does nothing until the next request: its turn has completed, or
// waits for results.
func (k *keptThread) isIdle() bool {
	if k.isParked() {
		return k.thread.HasParked(k.pendingCalls)
	}
	return k.thread.Completed()
}

// endTimeout bounds the wait for the end of a turn after its model response is complete.
const endTimeout = 5 * time.Second

// awaitIdle waits until the thread is idle or cannot become idle any more, but at most endTimeout.
func (k *keptThread) awaitIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if k.isParked() {
		_ = k.thread.Parked(ctx, k.pendingCalls) // an error does not matter: the caller then calls isIdle
		return
	}
	select {
	case <-k.thread.Ended():
	case <-k.place.Conn.Done():
	case <-ctx.Done():
	}
}

// keepWhenIdle keeps a thread as soon as it is idle. It unloads a thread that does not become idle
// in time. After that, it ends the announcement, and so wakes the requests that wait for the
// thread. keepWhenIdle itself does not wait: if the thread is not idle yet, a goroutine does all
// this.
func (t *Threads) keepWhenIdle(kept *keptThread, announcement *announcement) {
	if kept.isIdle() {
		t.store(kept)
		announcement.end()
		return
	}
	t.endingTurns.Go(func() {
		defer announcement.end()
		kept.awaitIdle()
		t.store(kept)
	})
}

// claim removes and returns a kept thread for the history with these links, see [keeper.claim]. If
// the thread of the newest answer is announced, claim first waits for that thread.
func (t *Threads) claim(ctx context.Context, links []Link) (*keptThread, Link, bool) {
	t.announcements.wait(ctx, links)
	return t.keeper.claim(links)
}

// takeSpare removes and returns a spare thread with these settings. It returns nil if there is
// none.
func (t *Threads) takeSpare(s *settings) *codexrpc.Thread {
	var buffer wirejson.Buffer
	defer buffer.Release()
	params, err := s.params.AppendJSON(buffer.Take())
	if err != nil {
		return nil // the start of a new thread will report the error
	}
	buffer.Keep(params)
	thread, kind := t.spares.claim(kindName(params), s.place.Conn)
	if s.spareKind = kind; len(params) <= maxKindName {
		s.encoded = codexrpc.Constant(kind)
	}
	return thread
}

// startSpare starts a spare thread with these settings in the background, if one more is wanted.
// takeSpare must have been called with the same settings before.
func (t *Threads) startSpare(s *settings) {
	k, wanted := t.spares.reserve(s.spareKind)
	if !wanted {
		return
	}
	conn := s.place.Conn
	add := func(thread *codexrpc.Thread) { t.spares.addStarted(k, conn, thread) }
	params, err := s.encode()
	if err != nil || t.memoryScarce() || !conn.PrepareThread(params, add) {
		add(nil)
	}
}

// encode returns the parameters of thread/start.
func (s *settings) encode() (codexrpc.Constant, error) {
	if s.encoded != "" {
		return s.encoded, nil
	}
	params, err := s.params.AppendJSON(nil)
	return codexrpc.Constant(params), err
}

// store keeps a thread. It unloads the thread instead if it is not idle, or if its turn is parked
// and parked turns are not kept.
func (t *Threads) store(kept *keptThread) {
	t.mu.Lock()
	parksTurns := t.parksTurns
	t.mu.Unlock()
	if kept.isParked() && !parksTurns || !kept.isIdle() {
		kept.thread.Close(nil) // Close interrupts a turn that still runs
		return
	}
	t.shrink()
	t.keeper.add(kept)
	if serving := kept.place.Process.Serving(); serving != kept.place.Conn {
		t.Follow(serving) // the app-server was replaced meanwhile
	}
}

// countClaim counts a claimed thread: as resumed if its turn was parked, otherwise as continued. If
// err is not nil, the conversation could not use the thread, and countClaim counts the reason
// instead.
func (t *Threads) countClaim(parked bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.stats.Fallbacks[fallbackReason(err)]++
	case parked:
		t.stats.Resumed++
	default:
		t.stats.Continued++
	}
}

// wasDropped reports whether the thread for a history was dropped. If so, the caller calls count,
// which counts the reason.
func (t *Threads) wasDropped(links []Link) (count func(), lost bool) {
	reason := t.keeper.takeReason(links)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stats.Fallbacks[string(reason)]++
	}, reason != ""
}

// errFollowUpMismatch means that the request does not continue the parked turn, so the turn cannot
// be resumed. The request has other results, other settings, or other items after the calls.
var errFollowUpMismatch = errors.New("the results of the calls do not follow")

// fallbackReason returns a word for the reason why a conversation could not continue in its thread.
func fallbackReason(err error) string {
	switch {
	case errors.Is(err, errFollowUpMismatch):
		return "other_results"
	case errors.Is(err, codexrpc.ErrClosed):
		return string(Unusable)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, codexrpc.ErrTimeout):
		return "timeout"
	}
	return "refused"
}
