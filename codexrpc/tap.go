package codexrpc

import (
	"context"
	"strings"
)

// Tap gets the lines of the calls that are made with its context, and the lines of the threads that are started
// with it. Its methods are called by several goroutines, must not block, and must not keep a line.
type Tap interface {
	// Line gets a line to the app-server (sent), or from it.
	Line(sent bool, line []byte)
	// Read is called when the consumer of the turn has got the events of the first lines of the thread: those
	// for which Line was called with sent false since the thread or the turn was started. err is why no more
	// events will come, or nil.
	Read(lines int, err error)
}

type tapKey struct{}

// WithTap returns a context for calls and turns whose lines tap gets.
func WithTap(ctx context.Context, tap Tap) context.Context {
	return context.WithValue(ctx, tapKey{}, tap)
}

func tapOf(ctx context.Context) Tap {
	tap, _ := ctx.Value(tapKey{}).(Tap)
	return tap
}

// tapped is the tap of a thread's turn, with the number of lines that it got. The lock of the thread guards it.
type tapped struct {
	tap   Tap
	lines int
}

// setTap makes the context's tap that of the thread's next turn.
func (t *Thread) setTap(ctx context.Context) {
	tap := tapOf(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tapped.tap != tap {
		t.tapped = tapped{tap: tap}
	}
}

// tapLine passes a line from the app-server to the tap of the thread, if there is one.
func (t *Thread) tapLine(line []byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	tap := t.tapped.tap
	if tap != nil {
		t.tapped.lines++
	}
	lines := t.tapped.lines
	t.mu.Unlock()
	if tap != nil {
		t.queue.tapLines = lines
		tap.Line(false, line)
	}
}

// running returns the id of the running turn, and its tap.
func (t *Thread) running() (turnID string, tap Tap) {
	t.mu.Lock()
	turnID, tap = t.turnID, t.tapped.tap
	t.mu.Unlock()
	return turnID, tap
}

// callTapOf returns the tap of a context for a call of this method: only those of threads and turns have one.
func callTapOf(ctx context.Context, method string) Tap {
	if strings.HasPrefix(method, "thread/") || strings.HasPrefix(method, "turn/") {
		return tapOf(ctx)
	}
	return nil
}
