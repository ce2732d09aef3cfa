package turn

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// script is a source that gives batches when a test says so.
type script struct {
	ready   chan struct{}
	mu      sync.Mutex
	batches [][]codexrpc.Event
	err     error
	refused []codexrpc.Event // what follows when the calls are refused
}

func newScript() *script { return &script{ready: make(chan struct{}, 1)} }

func (s *script) Ready() <-chan struct{} { return s.ready }

func (s *script) Wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *script) Recv() ([]codexrpc.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batches) == 0 {
		return nil, s.err
	}
	batch := s.batches[0]
	s.batches = s.batches[1:]
	return batch, nil
}

func (s *script) RefuseCalls() { s.give(s.refused...) }

func (s *script) give(batch ...codexrpc.Event) {
	s.mu.Lock()
	s.batches = append(s.batches, batch)
	s.mu.Unlock()
	s.Wake()
}

// listener is a consumer that remembers.
type listener struct {
	heard string
	woken int
	every time.Duration // between wakes; 0: never
	err   error         // what Consume returns
}

func (l *listener) Consume(outputs []Output) error {
	l.heard += say(outputs)
	return l.err
}

func (l *listener) Leave([]Output) {}

func (l *listener) NextWake() time.Duration {
	if l.every == 0 {
		return math.MaxInt64
	}
	return l.every
}

func (l *listener) Wake() error {
	l.woken++
	return nil
}

// TestDrive: a turn ends with its last event, the loss of the connection, or the exit of the server, which
// is a failure for its client, who has not gone.
func TestDrive(t *testing.T) {
	exit, cancel := context.WithCancelCause(t.Context())
	cancel(ErrShutdown)
	for want, c := range map[string]struct {
		ctx  context.Context
		more [][]codexrpc.Event
		err  error
	}{
		"text \"b\"\nfinish stop 0\n":                  {t.Context(), [][]codexrpc.Event{{delta("m", "b"), completed}}, nil},
		"failure " + codexrpc.ErrClosed.Error() + "\n": {t.Context(), nil, codexrpc.ErrClosed},
		"failure " + ErrShutdown.Error() + "\n":        {exit, nil, nil},
	} {
		s, l := newScript(), &listener{}
		s.batches, s.err = append([][]codexrpc.Event{{delta("m", "a")}}, c.more...), c.err
		must.OK(t, Drive(c.ctx, s, New(&Options{}), l, time.Minute))
		if l.heard != "text \"a\"\n"+want {
			t.Errorf("heard %s", l.heard)
		}
	}
}

func TestDriveClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Drive(ctx, newScript(), New(&Options{}), &listener{}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken pipe")
	s, l := newScript(), &listener{err: broken}
	s.batches = [][]codexrpc.Event{{delta("m", "a")}}
	if err := Drive(context.Background(), s, New(&Options{}), l, time.Minute); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// driveComplaining drives a turn that reports an error after 30 seconds.
func driveComplaining(t *testing.T, s *script, l *listener) {
	t.Helper()
	feeding := make(chan struct{})
	go func() {
		defer close(feeding)
		time.Sleep(30 * time.Second)
		s.give(complaint("reconnecting", true))
	}()
	must.OK(t, Drive(t.Context(), s, New(&Options{}), l, time.Minute))
	<-feeding
}

// TestDriveIdle: silence ends a turn, complaints do not count as life, and the
// consumer is woken meanwhile.
func TestDriveIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newScript(), &listener{every: 10 * time.Second}
		start := time.Now()
		s.batches = [][]codexrpc.Event{{delta("m", "a")}}
		driveComplaining(t, s, l)
		if l.woken < 2 {
			t.Errorf("woken %d times in %s", l.woken, time.Since(start))
		}
		// The complaint after some output ends the turn at once.
		if want := "text \"a\"\nfailure codex: reconnecting (other)\n"; l.heard != want {
			t.Errorf("heard %s", l.heard)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, l := newScript(), &listener{}
		start := time.Now()
		driveComplaining(t, s, l)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("ended after %s", took)
		}
		if want := "failure " + ErrIdle.Error() + "; its last message: reconnecting\n"; l.heard != want {
			t.Errorf("heard %s", l.heard)
		}
	})
}

// TestDriveRefusesCalls tests that the calls are refused when the model's response broke off after them:
// at once where that is known, otherwise after a silence that is shorter than the idle timeout.
func TestDriveRefusesCalls(t *testing.T) {
	silent := &codexrpc.TurnError{Message: "stream disconnected", Code: "other"}
	cut := &codexrpc.TurnError{Message: incompletePrefix + "max_output_tokens", Code: "other"}
	incomplete := call("c", "find", "{}")
	incomplete.Status = codexrpc.StatusIncomplete
	output := codexrpc.Event{Kind: codexrpc.EventCallOutput}
	for name, c := range map[string]struct {
		events, refused []codexrpc.Event
		after           time.Duration
		want            string
	}{
		"a call that was cut": {[]codexrpc.Event{incomplete}, []codexrpc.Event{output, ended(codexrpc.StatusFailed, cut)}, 0, "finish tool_calls 2\n"},
		"a message that was cut": {[]codexrpc.Event{call("c", "find", "{}"), begun("m"), whole("m", "a"), {Kind: codexrpc.EventItemCut, ItemID: "m"}},
			[]codexrpc.Event{output, ended(codexrpc.StatusFailed, cut)}, 0, "finish tool_calls 3\n"},
		"silence": {[]codexrpc.Event{call("c", "find", "{}")}, []codexrpc.Event{output, ended(codexrpc.StatusFailed, silent)}, maxCallSilence,
			"finish tool_calls 2\n"},
		"silence and a hidden retry":   {[]codexrpc.Event{call("c", "find", "{}")}, []codexrpc.Event{output, begun("m"), delta("m", "a")}, maxCallSilence, "finish tool_calls 2\n"},
		"silence and another call":     {[]codexrpc.Event{call("c", "find", "{}")}, []codexrpc.Event{output, call("d", "find", "{}")}, maxCallSilence, "finish tool_calls 2\n"},
		"a response that only paused":  {[]codexrpc.Event{call("c", "find", "{}")}, []codexrpc.Event{response(3)}, maxCallSilence, "finish tool_calls 3\n"},
		"the end of the response":      {[]codexrpc.Event{call("c", "find", "{}"), response(3)}, nil, 0, "finish tool_calls 3\n"},
		"results of a turn that waits": {[]codexrpc.Event{output, call("c", "find", "{}"), response(3)}, nil, 0, "finish tool_calls 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, l := newScript(), &listener{}
				s.batches, s.refused = [][]codexrpc.Event{c.events}, c.refused
				m, begin := New(&Options{}), time.Now()
				must.OK(t, Drive(context.Background(), s, m, l, time.Hour))
				if !strings.HasPrefix(l.heard, "call 0 ") || !strings.HasSuffix(l.heard, "\n"+c.want) {
					t.Errorf("heard\n%swant at the end\n%s", l.heard, c.want)
				}
				if took := time.Since(begin); took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
				if whole := m.ThreadState().InSync; whole != (c.refused == nil) {
					t.Errorf("the thread goes on: %v", whole)
				}
			})
		})
	}
}

// TestDriveMergedWakes checks that the end of the context is not lost when an event comes
// at the same time, so that one element of Ready stands for both.
func TestDriveMergedWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newScript(), &listener{}
		left := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- Drive(ctx, s, New(&Options{}), l, time.Hour) }()
		synctest.Wait()
		s.mu.Lock() // Drive takes the element and waits
		s.batches = append(s.batches, []codexrpc.Event{delta("m", "a")})
		s.Wake()
		cancel(left)
		s.mu.Unlock()
		if err := <-ended; !errors.Is(err, left) {
			t.Errorf("it ended with %v, heard %q", err, l.heard)
		}
	})
}
