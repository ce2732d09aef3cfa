package turn

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// script is a source that gives batches when a test says so.
type script struct {
	ready   chan struct{}
	mu      sync.Mutex
	batches [][]codexrpc.Event
	err     error
}

func newScript() *script { return &script{ready: make(chan struct{}, 1)} }

func (s *script) Ready() <-chan struct{} { return s.ready }

func (s *script) Recv([]codexrpc.Event) ([]codexrpc.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batches) == 0 {
		return nil, s.err
	}
	batch := s.batches[0]
	s.batches = s.batches[1:]
	return batch, nil
}

// give makes a batch available.
func (s *script) give(batch ...codexrpc.Event) {
	s.mu.Lock()
	s.batches = append(s.batches, batch)
	s.mu.Unlock()
	s.ready <- struct{}{}
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

func TestDriveToTheEnd(t *testing.T) {
	s, l := newScript(), &listener{}
	s.batches = [][]codexrpc.Event{{delta("m", "a")}, {delta("m", "b"), completed}}
	if err := Drive(context.Background(), s, New(Options{}), l, time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "text \"a\"\ntext \"b\"\nfinish stop 0\n"; l.heard != want {
		t.Errorf("heard %s", l.heard)
	}
}

func TestDriveLostConnection(t *testing.T) {
	s, l := newScript(), &listener{}
	s.batches, s.err = [][]codexrpc.Event{{delta("m", "a")}}, codexrpc.ErrClosed
	if err := Drive(context.Background(), s, New(Options{}), l, time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "text \"a\"\nfailure " + codexrpc.ErrClosed.Error() + "\n"; l.heard != want {
		t.Errorf("heard %s", l.heard)
	}
}

func TestDriveClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Drive(ctx, newScript(), New(Options{}), &listener{}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken pipe")
	s, l := newScript(), &listener{err: broken}
	s.batches = [][]codexrpc.Event{{delta("m", "a")}}
	if err := Drive(context.Background(), s, New(Options{}), l, time.Minute); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestDriveShutdown: a turn that the server ends is a failure for its client,
// who has not gone.
func TestDriveShutdown(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrShutdown)
	s, l := newScript(), &listener{}
	s.batches = [][]codexrpc.Event{{delta("m", "a")}}
	if err := Drive(ctx, s, New(Options{}), l, time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "text \"a\"\nfailure " + ErrShutdown.Error() + "\n"; l.heard != want {
		t.Errorf("heard %s", l.heard)
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
	if err := Drive(t.Context(), s, New(Options{}), l, time.Minute); err != nil {
		t.Fatal(err)
	}
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
