package gateway

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
)

// Conversations keeps threads of one app-server after their turns, so that the next
// requests of the same conversations go on there: the model's provider then has most
// of the prompt in its cache. It outlives configurations, as its process does. All
// methods are safe for concurrent use.
type Conversations struct {
	keeper *conversation.Keeper[*keptThread]
	memory *conversation.Memory
	coming conversation.Coming
	scarce func() bool    // reports whether the app-server's memory is scarce
	ending sync.WaitGroup // turns that are about to end

	mu        sync.Mutex
	parks     bool
	shrunk    time.Time // for want of memory, the last time
	continued int
	resumed   int
	fallbacks map[string]int
}

// NewConversations returns one that keeps nothing yet. memory is that of its login, for all
// of the login's processes. scarce reports whether the memory
// of the app-server is scarce, so that less is kept.
func NewConversations(limits conversation.Limits, memory *conversation.Memory, scarce func() bool) *Conversations {
	c := &Conversations{memory: memory, scarce: scarce, fallbacks: make(map[string]int)}
	c.keeper = conversation.NewKeeper(limits, func(kept *keptThread) { kept.thread.Close(nil) })
	c.SetLimits(limits)
	return c
}

// SetLimits changes the limits.
func (c *Conversations) SetLimits(limits conversation.Limits) {
	c.mu.Lock()
	c.parks = limits.Parked > 0
	c.mu.Unlock()
	if limits.Max == 0 {
		c.memory.Clear()
	}
	c.keeper.SetLimits(limits)
}

// ConversationStats are counts of conversations.
type ConversationStats struct {
	Kept      int            // threads that wait for the next request, parked ones included
	Parked    int            // turns that wait for the results of their calls
	Continued int            // requests that went on in a kept thread
	Resumed   int            // requests that brought the results for a parked turn
	Fallbacks map[string]int // requests whose thread was gone or could not go on, by reason
}

// Stats returns the counts so far.
func (c *Conversations) Stats() ConversationStats {
	kept, parked := c.keeper.Counts()
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConversationStats{
		Kept: kept, Parked: parked,
		Continued: c.continued, Resumed: c.resumed, Fallbacks: maps.Clone(c.fallbacks),
	}
}

// Follow drops the threads that are not on the connection that serves new turns: an
// app-server that was replaced ends when its last thread has gone.
func (c *Conversations) Follow(serving *codexrpc.Conn) {
	c.keeper.DropIf(func(kept *keptThread) bool { return kept.place.conn != serving })
}

// shrinkPause is how long the app-server has to free memory before more is taken from
// it.
const shrinkPause = 10 * time.Second

// shrink drops half of the threads if memory is scarce.
func (c *Conversations) shrink() {
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
		c.keeper.Shrink()
	}
}

// Close drops all threads.
func (c *Conversations) Close() {
	c.keeper.Close()
	c.ending.Wait()
}

// keptThread is a thread that a conversation can go on in.
type keptThread struct {
	thread *codexrpc.Thread
	place  place
	spent  codexrpc.Usage // by all of its turns
	waits  []string       // ids of the calls whose results its turn waits for
	schema string         // of the answers of that turn
}

// endTimeout bounds the end of a turn whose model response is complete.
const endTimeout = 5 * time.Second

// put keeps a thread, and then calls arrived. One whose turn has calls waits for their
// results; another is kept once its turn has completed.
func (c *Conversations) put(kept conversation.Kept[*keptThread], arrived func()) {
	kept.Parked = len(kept.Thread.waits) > 0
	if kept.Parked || kept.Thread.thread.Completed() {
		c.store(kept)
		arrived()
		return
	}
	c.ending.Go(func() {
		defer arrived()
		timer := time.NewTimer(endTimeout)
		defer timer.Stop()
		select {
		case <-kept.Thread.thread.Ended():
		case <-kept.Thread.place.conn.Done():
		case <-timer.C:
		}
		c.store(kept)
	})
}

// comingTimeout bounds the wait for a thread that is about to be kept. Starting a fresh
// one is the way out.
const comingTimeout = 2 * time.Second

// claim takes out the thread that holds the most of a history, and waits for the thread of
// the newest answer if it is about to be kept.
func (c *Conversations) claim(ctx context.Context, links []conversation.Link) (conversation.Kept[*keptThread], conversation.Link, bool) {
	ctx, cancel := context.WithTimeout(ctx, comingTimeout)
	defer cancel()
	c.coming.Wait(ctx, links)
	return c.keeper.Claim(links)
}

// store keeps a thread whose turn has ended or waits for results.
func (c *Conversations) store(kept conversation.Kept[*keptThread]) {
	c.mu.Lock()
	parks := c.parks
	c.mu.Unlock()
	at := kept.Thread.place
	if kept.Parked && !parks || !kept.Parked && !kept.Thread.thread.Completed() {
		kept.Thread.thread.Close(nil)
		return
	}
	c.shrink()
	c.keeper.Put(kept)
	if serving := at.process.Serving(); serving != at.conn {
		c.Follow(serving) // it was replaced meanwhile
	}
}

// note counts what became of a thread that was claimed.
func (c *Conversations) note(parked bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.fallbacks[fallbackReason(err)]++
	case parked:
		c.resumed++
	default:
		c.continued++
	}
}

// noteLost counts a request whose thread was let go of.
func (c *Conversations) noteLost(why conversation.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fallbacks[string(why)]++
}

// errOtherFollowUp means that what follows the calls of a parked turn is not what such
// a turn can take.
var errOtherFollowUp = errors.New("the results of the calls do not follow")

// fallbackReason returns a word for why a conversation could not go on in its thread.
func fallbackReason(err error) string {
	switch {
	case errors.Is(err, errOtherFollowUp):
		return "other_results"
	case errors.Is(err, codexrpc.ErrClosed):
		return string(conversation.Unusable)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, codexrpc.ErrTimeout):
		return "timeout"
	}
	return "refused"
}
