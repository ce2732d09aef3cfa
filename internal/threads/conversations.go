package threads

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Conversations keeps threads of one app-server after their turns, so that the next
// requests of the same conversations go on there: the model's provider then has most
// of the prompt in its cache. It outlives configurations, as its process does. All
// methods are safe for concurrent use.
type Conversations struct {
	// Memory has the reasoning that is remembered of the login, for all of its processes.
	Memory *conversation.Memory
	// Coming are the threads that are about to be kept. Claim waits for them.
	conversation.Coming

	keeper *conversation.Keeper[*Kept]
	spares spares
	scarce func() bool    // reports whether the app-server's memory is scarce
	ending sync.WaitGroup // turns that are about to end

	mu     sync.Mutex
	parks  bool
	shrunk time.Time            // when memory was scarce last
	stats  status.Conversations // without the counts of the keeper
}

// NewConversations returns one that keeps nothing yet. scarce reports whether the memory of
// the app-server is scarce, so that less is kept.
func NewConversations(limits conversation.Limits, memory *conversation.Memory, scarce func() bool) *Conversations {
	c := &Conversations{Memory: memory, scarce: scarce, stats: status.Conversations{Fallbacks: make(map[string]int)}}
	c.keeper = conversation.NewKeeper(limits, func(kept *Kept) { kept.Thread.Close(nil) })
	c.SetLimits(limits)
	return c
}

// SetLimits changes the limits.
func (c *Conversations) SetLimits(limits conversation.Limits) {
	c.mu.Lock()
	c.parks = limits.Parked > 0
	c.mu.Unlock()
	if limits.Max == 0 {
		c.Memory.Clear()
	}
	c.keeper.SetLimits(limits)
	c.spares.setMost(limits.Spares)
}

// Stats returns the counts so far.
func (c *Conversations) Stats() status.Conversations {
	kept, parked := c.keeper.Counts()
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
func (c *Conversations) Parked() []status.Request {
	var parked []status.Request
	c.keeper.Each(func(kept *Kept) {
		if len(kept.Waits) > 0 {
			r := kept.Request
			r.State = status.Parked
			parked = append(parked, r)
		}
	})
	return parked
}

// Follow drops the threads that are not on the connection that serves new turns: an
// app-server that was replaced ends when its last thread has gone.
func (c *Conversations) Follow(serving *codexrpc.Conn) {
	c.keeper.DropIf(func(kept *Kept) bool { return kept.Place.Conn != serving })
	c.spares.follow(serving)
}

// shrinkPause is how long the app-server has to free memory before more is taken from
// it.
const shrinkPause = 10 * time.Second

// shrink drops half of the threads, and all spare ones, if memory is scarce.
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
		c.spares.dropIf(func(spare) bool { return true })
		c.keeper.Shrink()
	}
}

// Close drops all threads.
func (c *Conversations) Close() {
	c.keeper.Close()
	c.spares.close()
	c.ending.Wait()
}

// Kept is a thread that a conversation can go on in.
type Kept struct {
	Thread *codexrpc.Thread
	Place  Place
	Spent  codexrpc.Usage // by all of its turns
	Waits  []string       // ids of the calls whose results its turn waits for
	Schema string         // of the answers of that turn
	Effort string         // of the last turn; empty: the model's own
	// Request is the last request, at the end of its answer.
	Request status.Request
}

// rests reports whether the thread does nothing until the next request: its turn has
// completed, or waits for results.
func (k *Kept) rests() bool {
	if len(k.Waits) > 0 {
		return k.Thread.HasParked(k.Waits)
	}
	return k.Thread.Completed()
}

// endTimeout bounds the end of a turn whose model response is complete.
const endTimeout = 5 * time.Second

// awaitRest waits until the thread rests, or will not.
func (k *Kept) awaitRest() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if len(k.Waits) > 0 {
		_ = k.Thread.Parked(ctx, k.Waits) // rests tells
		return
	}
	select {
	case <-k.Thread.Ended():
	case <-k.Place.Conn.Done():
	case <-ctx.Done():
	}
}

// Put keeps a thread, and then ends its announcement. One whose turn has calls is kept once
// Codex waits for all of their results, another once its turn has completed.
func (c *Conversations) Put(kept conversation.Kept[*Kept], announced *conversation.Announcement) {
	kept.Parked = len(kept.Thread.Waits) > 0
	if kept.Thread.rests() {
		c.store(kept)
		announced.End()
		return
	}
	c.ending.Go(func() {
		defer announced.End()
		kept.Thread.awaitRest()
		c.store(kept)
	})
}

// Claim takes out the thread that holds the most of a history, and waits for the thread of
// the newest answer if it is about to be kept.
func (c *Conversations) Claim(ctx context.Context, links []conversation.Link) (conversation.Kept[*Kept], conversation.Link, bool) {
	c.Wait(ctx, links)
	return c.keeper.Claim(links)
}

// Spare takes out a spare thread with these settings, or returns nil.
func (c *Conversations) Spare(s *Settings) *codexrpc.Thread {
	var buffer wirejson.Buffer
	defer buffer.Release()
	params, err := s.params.AppendJSON(buffer.Take())
	if err != nil {
		return nil // what starts the thread says it
	}
	buffer.Keep(params)
	thread, kind := c.spares.claim(kindName(params), s.at.Conn)
	if s.kind = kind; len(params) <= maxKindName {
		s.encoded = codexrpc.Constant(kind)
	}
	return thread
}

// Prepare starts a spare thread with settings for which Spare was called, if one is wanted. It
// waits for nothing.
func (c *Conversations) Prepare(s *Settings) {
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
func (s *Settings) encode() (codexrpc.Constant, error) {
	if s.encoded != "" {
		return s.encoded, nil
	}
	params, err := s.params.AppendJSON(nil)
	return codexrpc.Constant(params), err
}

// store keeps a thread whose turn has ended or waits for results.
func (c *Conversations) store(kept conversation.Kept[*Kept]) {
	c.mu.Lock()
	parks := c.parks
	c.mu.Unlock()
	at := kept.Thread.Place
	if kept.Parked && !parks || !kept.Thread.rests() {
		kept.Thread.Thread.Close(nil) // which interrupts a turn that goes on
		return
	}
	c.shrink()
	c.keeper.Put(kept)
	if serving := at.Process.Serving(); serving != at.Conn {
		c.Follow(serving) // it was replaced meanwhile
	}
}

// Note counts what became of a thread that was claimed.
func (c *Conversations) Note(parked bool, err error) {
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

// Lost reports whether a thread with the beginning of a history was dropped. note counts the
// request as one whose thread is gone.
func (c *Conversations) Lost(links []conversation.Link) (note func(), lost bool) {
	why := c.keeper.Lost(links)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Fallbacks[string(why)]++
	}, why != ""
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
