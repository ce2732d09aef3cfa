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

// Threads keeps threads of one app-server after their turns, so that the next requests of the same
// conversations go on there: the model's provider then has most of the prompt in its cache. Like
// the app-server, Threads live on when the configuration is reloaded. All methods are safe for
// concurrent use.
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

// NewThreads returns Threads that keep nothing yet. scarce reports whether the memory of the
// app-server is scarce; then fewer threads are kept.
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

// Parked returns the requests whose turns wait for the results of their calls, the oldest
// first.
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

// Follow drops the threads that are not on serving, the connection for new turns. An app-server
// that was replaced ends when its last thread is gone.
func (c *Threads) Follow(serving *codexrpc.Conn) {
	c.keeper.dropIf(func(one *kept) bool { return one.place.Conn != serving })
	c.spares.follow(serving)
}

// shrinkPause is the least pause between two shrinks: the app-server needs time to free memory.
const shrinkPause = 10 * time.Second

// shrink drops half of the threads, and all spare ones, if memory is scarce.
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

// kept is a thread in which a conversation can go on, and the history that it holds.
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

// parked reports whether its turn waits for the results of calls.
func (k *kept) parked() bool { return len(k.waits) > 0 }

// idle reports whether the thread does nothing until the next request: its turn has
// completed, or waits for results.
func (k *kept) idle() bool {
	if k.parked() {
		return k.thread.HasParked(k.waits)
	}
	return k.thread.Completed()
}

// endTimeout bounds the end of a turn whose model response is complete.
const endTimeout = 5 * time.Second

// awaitIdle waits until the thread is idle, or until it can no longer become idle. It waits for at
// most endTimeout.
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

// put keeps a thread once it is idle, and then ends its announcement. If the turn has calls, the
// thread is idle once Codex waits for all their results, otherwise once the turn has completed.
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

// claim removes the thread that holds the most of a history. If the thread of the newest answer is
// about to be kept, claim waits for it first.
func (c *Threads) claim(ctx context.Context, links []Link) (*kept, Link, bool) {
	c.coming.wait(ctx, links)
	return c.keeper.claim(links)
}

// spare removes a spare thread with these settings and returns it, or nil if there is none.
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

// prepare starts a spare thread with settings, if one is wanted. It is called after spare with the
// same settings, and waits for nothing.
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

// store keeps a thread whose turn has ended or waits for results.
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

// note counts whether a conversation could go on in the thread that was claimed.
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

// lost reports whether a thread with the beginning of a history was dropped. A call of note counts
// one request that found its thread dropped, under the reason.
func (c *Threads) lost(links []Link) (note func(), lost bool) {
	why := c.keeper.whyLost(links)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Fallbacks[string(why)]++
	}, why != ""
}

// errOtherFollowUp means that a parked turn cannot be resumed with what follows its calls.
var errOtherFollowUp = errors.New("the results of the calls do not follow")

// fallbackReason returns a word for why a conversation could not go on in its thread.
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
