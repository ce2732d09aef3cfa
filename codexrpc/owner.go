package codexrpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A remote app-server goes on with the turns of a client that was killed, and
// keeps those for ever that wait for the results of tools. It does not tell
// whose they are. So each thread carries the name of its connection, and each
// connection has one thread more, its sign of life, on which nothing runs: the
// app-server unloads it when the connection has ended, however that came. A
// thread whose connection shows no sign of life is interrupted by whoever sees
// it first, this client's successor or another machine's.

const (
	// ownerPrefix begins the threadSource of all threads with an owner.
	ownerPrefix = "codexrpc/"
	// signSuffix ends that of a sign of life.
	signSuffix = "/alive"
	// orphanSweeps is in how many sweeps in a row a thread must be seen without
	// its owner. An owner that has lost its sign has shown another by then.
	orphanSweeps = 3
	// maxReads bounds the threads that one sweep asks for their owners.
	maxReads = 256
	// sweepEvery is the pause between two sweeps.
	sweepEvery = 5 * time.Second
	// sweepTimeout bounds a sweep. It takes a few milliseconds.
	sweepTimeout = 30 * time.Second
)

// mark gives a thread of a remote app-server its owner, once the sign of life
// is there. Without one, it has no owner and is nobody's to interrupt.
func (c *Conn) mark(ctx context.Context, params *ThreadStartParams) error {
	if !c.remote {
		return nil
	}
	c.signing.Do(func() {
		// Configured as another thread is, so that it does not start more.
		sign := ThreadStartParams{
			Model: params.Model, Cwd: params.Cwd, ApprovalPolicy: params.ApprovalPolicy, Sandbox: params.Sandbox, Config: params.Config,
			Ephemeral: true, Environments: []struct{}{}, ThreadSource: c.owner + signSuffix,
		}
		c.background(func(ctx context.Context) { c.show(ctx, sign) }, func() { close(c.signed) })
	})
	select {
	case <-c.signed:
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sign != "" {
		params.ThreadSource = c.owner
	}
	return nil
}

// show starts the thread that is the sign of life.
func (c *Conn) show(ctx context.Context, params ThreadStartParams) {
	var started struct {
		Thread struct {
			ID           string `json:"id"`
			ThreadSource string `json:"threadSource"`
		} `json:"thread"`
	}
	err := c.call(ctx, call{method: methodThreadStart, params: params, result: &started})
	if err == nil && started.Thread.ThreadSource != params.ThreadSource {
		err = errors.New("it does not keep threadSource")
	}
	if err != nil {
		c.logger().Debug("showing the codex app-server whose threads are ours", "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sign, c.signAs = started.Thread.ID, params
}

// newOwner is the name of a connection.
func newOwner() string { return ownerPrefix + rand.Text() }

// sweeper finds the threads that have lost their owners. Only one goroutine at
// a time uses it.
type sweeper struct {
	sources map[string]string // of threads, by id; "?": not asked for yet
	alone   map[string]int    // sweeps in a row that found a thread without its owner
}

// unread is the source of a thread that was seen once. Most are gone by the next
// sweep.
const unread = "?"

// sweep looks at all threads of the app-server and interrupts the turns of those
// whose owners are gone. It returns how many there were.
func (s *sweeper) sweep(ctx context.Context, c *Conn) (ended int, err error) {
	c.mu.Lock()
	sign, signAs := c.sign, c.signAs
	c.mu.Unlock()
	ids, err := c.loaded(ctx)
	if err != nil || ids == nil {
		return 0, err
	}
	if sign != "" && !slices.Contains(ids, sign) {
		c.show(ctx, signAs)
	}
	if err := s.learn(ctx, c, ids); err != nil {
		return 0, err
	}
	orphans := s.orphans(c.owner)
	c.interrupt(ctx, orphans)
	return len(orphans), nil
}

// learn keeps the sources of the threads that are there, and no others.
func (s *sweeper) learn(ctx context.Context, c *Conn, ids []string) error {
	known := make(map[string]string, len(ids))
	reads := 0
	for _, id := range ids {
		source, seen := s.sources[id]
		switch {
		case !seen:
			source = unread
		case source == unread && c.thread(id) == nil && reads < maxReads:
			reads++
			var err error
			if source, err = c.source(ctx, id); err != nil {
				return err
			}
		}
		known[id] = source
	}
	s.sources = known
	return nil
}

// orphans counts how often each thread was alone, and returns those that were
// so often enough. The connection's own threads are not among them.
func (s *sweeper) orphans(own string) (found []string) {
	living := map[string]bool{own: true}
	for _, source := range s.sources {
		if owner, ok := strings.CutSuffix(source, signSuffix); ok {
			living[owner] = true
		}
	}
	alone := make(map[string]int)
	for id, source := range s.sources {
		if !strings.HasPrefix(source, ownerPrefix) || strings.HasSuffix(source, signSuffix) || living[source] {
			continue
		}
		if alone[id] = s.alone[id] + 1; alone[id] >= orphanSweeps {
			found = append(found, id)
		}
	}
	s.alone = alone
	return found
}

// loaded lists the threads that the app-server holds, of all of its clients.
func (c *Conn) loaded(ctx context.Context) (ids []string, err error) {
	var list struct {
		Data []string `json:"data"`
	}
	err = c.call(ctx, call{method: methodThreadLoadedList, params: struct{}{}, result: &list})
	return list.Data, err
}

// source reads the threadSource of a thread; empty: it has none, or is gone.
func (c *Conn) source(ctx context.Context, id string) (string, error) {
	params := struct {
		ThreadID string `json:"threadId"`
	}{id}
	var read struct {
		Thread struct {
			ThreadSource string `json:"threadSource"`
		} `json:"thread"`
	}
	err := c.call(ctx, call{method: methodThreadRead, params: params, result: &read})
	if refused := (*CallError)(nil); errors.As(err, &refused) {
		return "", nil
	}
	return read.Thread.ThreadSource, err
}

// sweep looks for orphans on a remote app-server, in the background.
func (s *supervisor) sweep() {
	in := s.serving
	if in == nil || in.child != nil || !s.sweeping.CompareAndSwap(false, true) {
		return
	}
	s.background.Go(func() {
		defer s.sweeping.Store(false)
		ctx, cancel := context.WithTimeoutCause(context.Background(), sweepTimeout, fmt.Errorf("a sweep: %w", ErrTimeout))
		defer cancel()
		switch n, err := s.sweeper.sweep(ctx, in.conn); {
		case err != nil:
			s.log().Debug("looking for turns without a client", "error", err)
		case n > 0:
			s.log().Warn("interrupted turns that a client which is gone had left on the codex app-server", "turns", n, "address", s.address)
		}
	})
}
