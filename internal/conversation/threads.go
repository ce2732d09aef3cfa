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
	memory *Memory // of the login, for all of its processes
	coming coming  // threads that are about to be kept
	keeper *keeper
	spares spares
	scarce func() bool    // reports whether the app-server's memory is scarce
	ending sync.WaitGroup // turns that are about to end

	mu     sync.Mutex
	parks  bool
	shrunk time.Time            // when memory was scarce last
	stats  status.Conversations // without the counts of the keeper
}

// NewThreads returns an empty Threads. scarce reports whether the memory of the app-server is
// scarce; if so, fewer threads are kept.
func NewThreads(limits Limits, memory *Memory, scarce func() bool) *Threads {
	c := &Threads{memory: memory, scarce: scarce, stats: status.Conversations{Fallbacks: make(map[string]int)}}
	c.keeper = newKeeper(limits, func(one *kept) { one.thread.Close(nil) })
	c.SetLimits(limits)
	return c
}

// SetLimits changes the limits.
func (c *Threads) SetLimits(limits Limits) {
	c.mu.Lock()
	c.parks = limits.Parked > 0
	c.mu.Unlock()
	if limits.Max == 0 {
		c.memory.Clear()
	}
	c.keeper.setLimits(limits)
	c.spares.setMost(limits.Spares)
}

// Stats returns the counts so far.
func (c *Threads) Stats() status.Conversations {
	kept, parked := c.keeper.counts()
	spare, prepared := c.spares.counts()
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Kept, stats.Parked, stats.Fallbacks = kept, parked, maps.Clone(stats.Fallbacks)
	stats.Spare, stats.Prepared = spare, prepared
	return stats
}

// Parked returns the requests whose turns are parked: they wait for the results of tool calls. The
// oldest request is first.
func (c *Threads) Parked() []status.Request {
	var parked []status.Request
	c.keeper.each(func(one *kept) {
		if one.parked() {
			r := one.request
			r.State = status.Parked
			parked = append(parked, r)
		}
	})
	return parked
}

// Follow drops the threads on other connections than serving, the connection for new turns. This
// allows an app-server that was replaced to end, since it ends after its last thread.
func (c *Threads) Follow(serving *codexrpc.Conn) {
	c.keeper.dropIf(func(one *kept) bool { return one.place.Conn != serving })
	c.spares.follow(serving)
}

// shrinkPause is the minimum pause between two calls of shrink that drop threads, since the
// app-server needs time to free memory.
const shrinkPause = 10 * time.Second

// shrink drops half of the kept threads and all spare threads if memory is scarce.
func (c *Threads) shrink() {
	if !c.scarce() {
		return
	}
	c.mu.Lock()
	again := time.Since(c.shrunk) >= shrinkPause
	if again {
		c.shrunk = time.Now()
	}
	c.mu.Unlock()
	if again {
		c.spares.dropIf(func(spare) bool { return true })
		c.keeper.shrink()
	}
}

// Close drops all threads.
func (c *Threads) Close() {
	c.keeper.close()
	c.spares.close()
	c.ending.Wait()
}

// kept is a thread that is kept for the next request of its conversation, with the hash of its
// history.
type kept struct {
	hash    Hash   // names the history
	user    string // its owner; if there is no room, the user with the most threads loses one
	size    int    // of the history, in bytes
	thread  *codexrpc.Thread
	place   Place
	spent   codexrpc.Usage // by all of its turns
	waits   []string       // ids of the calls whose results its turn waits for
	schema  string         // of the answers of that turn
	effort  string         // of the last turn; empty: the model's own
	request status.Request // the last request, as it was at the end of its answer
	until   time.Time      // when it is dropped
}

// parked reports whether the thread's turn waits for the results of tool calls.
func (k *kept) parked() bool { return len(k.waits) > 0 }

// idle reports whether the thread does nothing until the next request, since its turn has completed
// or waits for results.
func (k *kept) idle() bool {
	if k.parked() {
		return k.thread.HasParked(k.waits)
	}
	return k.thread.Completed()
}

// endTimeout bounds the wait for the end of a turn after its model response is complete.
const endTimeout = 5 * time.Second

// awaitIdle waits until the thread is idle or cannot become idle any more, at most endTimeout.
func (k *kept) awaitIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if k.parked() {
		_ = k.thread.Parked(ctx, k.waits) // the caller asks the thread whether it is idle
		return
	}
	select {
	case <-k.thread.Ended():
	case <-k.place.Conn.Done():
	case <-ctx.Done():
	}
}

// put keeps a thread as soon as it is idle, and then wakes the requests that wait for it by ending
// its announcement. A thread is idle when its turn has completed or, if the turn has tool calls,
// when Codex waits for all their results. put itself returns at once.
func (c *Threads) put(one *kept, announced *announcement) {
	if one.idle() {
		c.store(one)
		announced.end()
		return
	}
	c.ending.Go(func() {
		defer announced.end()
		one.awaitIdle()
		c.store(one)
	})
}

// claim removes and returns the thread whose history is the longest beginning of the request's
// history. If the thread of the newest answer will be kept in a moment, claim first waits for it.
func (c *Threads) claim(ctx context.Context, links []Link) (*kept, Link, bool) {
	c.coming.wait(ctx, links)
	return c.keeper.claim(links)
}

// spare removes and returns a spare thread with these settings, or returns nil if there is none.
func (c *Threads) spare(s *settings) *codexrpc.Thread {
	var buffer wirejson.Buffer
	defer buffer.Release()
	params, err := s.params.AppendJSON(buffer.Take())
	if err != nil {
		return nil // the start of a new thread will report it
	}
	buffer.Keep(params)
	thread, kind := c.spares.claim(kindName(params), s.at.Conn)
	if s.kind = kind; len(params) <= maxKindName {
		s.encoded = codexrpc.Constant(kind)
	}
	return thread
}

// prepare starts a spare thread with these settings in the background, if one more is wanted. spare
// must have been called with the same settings before.
func (c *Threads) prepare(s *settings) {
	k, wanted := c.spares.wanted(s.kind)
	if !wanted {
		return
	}
	on := s.at.Conn
	arrive := func(thread *codexrpc.Thread) { c.spares.arrive(k, on, thread) }
	params, err := s.encode()
	if err != nil || c.scarce() || !on.PrepareThread(params, arrive) {
		arrive(nil)
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

// store keeps a thread if it is idle, and unloads it otherwise.
func (c *Threads) store(one *kept) {
	c.mu.Lock()
	parks := c.parks
	c.mu.Unlock()
	if one.parked() && !parks || !one.idle() {
		one.thread.Close(nil) // Close interrupts a turn that goes on
		return
	}
	c.shrink()
	c.keeper.add(one)
	if serving := one.place.Process.Serving(); serving != one.place.Conn {
		c.Follow(serving) // the app-server was replaced meanwhile
	}
}

// note counts a claimed thread: as resumed if its turn was parked (waiting for the results of tool
// calls), otherwise as continued. If err is set, the conversation could not use the thread, and
// note counts the reason instead.
func (c *Threads) note(parked bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.stats.Fallbacks[fallbackReason(err)]++
	case parked:
		c.stats.Resumed++
	default:
		c.stats.Continued++
	}
}

// lost reports whether the thread for a history was dropped earlier. If so, the caller calls note,
// which counts the request by the reason of the drop.
func (c *Threads) lost(links []Link) (note func(), lost bool) {
	why := c.keeper.whyLost(links)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Fallbacks[string(why)]++
	}, why != ""
}

// errOtherFollowUp means that the items after the calls in the history do not fit the parked turn,
// so that the turn cannot be resumed.
var errOtherFollowUp = errors.New("the results of the calls do not follow")

// fallbackReason returns a word for the reason why a conversation could not go on in its thread.
func fallbackReason(err error) string {
	switch {
	case errors.Is(err, errOtherFollowUp):
		return "other_results"
	case errors.Is(err, codexrpc.ErrClosed):
		return string(Unusable)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, codexrpc.ErrTimeout):
		return "timeout"
	}
	return "refused"
}
