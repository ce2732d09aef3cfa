package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a connection.
const (
	// maxInFlight caps the calls that wait for an answer. Above some hundred
	// the app-server loses requests without a word; 64 were never lost.
	maxInFlight = 64
	// callTimeout is how long a call may wait for its answer.
	callTimeout = 30 * time.Second
	// writeTimeout is how long one message may take to be written.
	writeTimeout = 30 * time.Second
)

// Conn is one connection to an app-server. All methods are safe for concurrent
// use.
type Conn struct {
	transport    Transport
	maxWrite     int // of a message, in bytes; 0: no bound
	logger       func() *slog.Logger
	outgoing     chan []byte   // calls and notifications, to the writer
	replies      chan []byte   // to requests of the app-server's, to the writer
	slots        chan struct{} // holds one element for each call in flight
	stats        counters
	lastID       atomic.Int64
	limits       limits
	instructions instructions
	done         chan struct{}
	loops        sync.WaitGroup // the reader and the writer
	closers      sync.WaitGroup // threads being unloaded in the background, and Monitor
	scratch      Event          // the reader's own, so that no event is made twice
	doubts       chan struct{}  // capacity 1: the app-server is to be probed at once
	completed    atomic.Bool    // a turn has ended as turns do

	mu         sync.Mutex
	err        error // why the connection ended; set before done is closed
	calls      map[string]*pendingCall
	unanswered map[string]int // calls in a row that timed out, by method
	threads    map[string]*Thread
	opening    int      // calls of StartThread under way
	orphans    []string // threads whose turns may have run when the connection ended
}

// NewConn makes a connection over t and starts its reader and writer. It owns
// t. [Conn.Close] ends both; so does the transport's end. logger returns the
// logger for what is logged now; nil: nothing is logged.
func NewConn(t Transport, logger func() *slog.Logger) *Conn {
	if logger == nil {
		logger = func() *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	c := &Conn{
		transport:  t,
		logger:     logger,
		outgoing:   make(chan []byte),
		replies:    make(chan []byte, maxReplies),
		slots:      make(chan struct{}, maxInFlight),
		done:       make(chan struct{}),
		doubts:     make(chan struct{}, 1),
		calls:      make(map[string]*pendingCall),
		unanswered: make(map[string]int),
		threads:    make(map[string]*Thread),
	}
	if b, ok := t.(bounded); ok {
		c.maxWrite = b.MaxWrite()
	}
	c.loops.Add(2)
	go c.readLoop()
	go c.writeLoop()
	return c
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; it matches [ErrClosed]. It is nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats returns the counts so far.
func (c *Conn) Stats() Stats { return c.stats.snapshot() }

// Threads returns how many threads of ours are open on this connection.
func (c *Conn) Threads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)
}

// Busy reports whether somebody has a thread or a call on the connection, or is
// about to. A call that will hardly be answered any more does not count.
func (c *Conn) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)+len(c.slots)+c.opening > 0
}

// Close ends the connection and waits for its goroutines.
func (c *Conn) Close() error {
	c.Fail(errors.New("closed by this client"))
	err := c.transport.Close()
	c.loops.Wait()
	c.closers.Wait()
	return err
}

// HasCompletedTurn reports whether a turn has ended by itself on the connection.
func (c *Conn) HasCompletedTurn() bool { return c.completed.Load() }

// Fail ends the connection: every call and every turn gets the cause, unless the
// connection has ended before. Unlike Close it waits for nothing.
func (c *Conn) Fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	err := fmt.Errorf("%w: %w", ErrClosed, cause)
	c.err = err
	threads, calls := c.threads, c.calls
	c.orphans = running(threads)
	c.threads, c.calls = nil, nil // read as empty, and never written again
	for _, p := range calls {
		if p.expiry != nil {
			p.expiry.Stop()
		}
	}
	c.mu.Unlock()
	close(c.done)
	for _, t := range threads {
		t.queue.fail(err)
	}
}

// readLoop takes messages until the transport ends. It waits for nobody.
func (c *Conn) readLoop() {
	defer c.loops.Done()
	for {
		line, err := c.transport.Read()
		switch {
		case errors.Is(err, ErrMessageTooLarge):
			c.stats.tooLarge.Add(1)
			c.logger().Warn("skipped a message of the codex app-server", "error", err)
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = errors.New("the app-server closed its output")
			}
			c.Fail(err)
			return
		case !c.isEcho(line):
			c.dispatch(line)
		}
	}
}

// dispatch routes one message to whom it concerns.
func (c *Conn) dispatch(line []byte) {
	m, err := parseMessage(line)
	switch {
	case err != nil:
		c.stats.garbage.Add(1)
		c.logger().LogAttrs(context.Background(), slog.LevelDebug, "unreadable line from the codex app-server",
			slog.Int("bytes", len(line)))
	case m.method == "":
		c.settle(m)
	case m.id != "":
		c.serve(m)
	default:
		c.notify(m)
	}
}

// notify routes a notification to its thread by id, and only by id.
func (c *Conn) notify(m message) {
	switch m.method {
	case methodRateLimitsUpdated:
		c.limits.update(m.params.Get("rateLimits"))
		return
	case methodAccountUpdated:
		c.instructions.forget()
		return
	}
	decode, ok := decoders[m.method]
	if !ok {
		if !expected[m.method] {
			c.stats.unknownNotifications.Add(1)
		}
		return
	}
	e := &c.scratch
	*e = Event{size: m.size}
	decode(m.params, e)
	if e.Kind == 0 {
		return
	}
	if e.Err != nil {
		c.limits.date(e.Err)
	}
	t := c.thread(e.threadID)
	if t == nil {
		c.stats.unrouted.Add(1)
		return
	}
	switch err := t.accept(e); {
	case errors.Is(err, errForeign):
		c.stats.unrouted.Add(1)
	case errors.Is(err, ErrTooSlow):
		c.stats.overflowed.Add(1)
	}
}

func (c *Conn) thread(id string) *Thread {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.threads[id]
}
