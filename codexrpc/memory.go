package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// sampleEvery is the pause between two looks at the app-server's memory.
	sampleEvery = 5 * time.Second
	// sampleTimeout bounds one. It takes less than a millisecond.
	sampleTimeout = 10 * time.Second
	// freshTimeout bounds that of a fresh app-server, which is waited for.
	freshTimeout = time.Second
)

// newFloor makes the pauses between replacements for memory that gain little.
// They are never below a minute, and double while an app-server is above the
// limit within minutes: then the limit is too low, and replacing does not help.
func newFloor() backoff {
	return backoff{first: 80 * time.Second, most: 30 * time.Minute, stable: 5 * time.Minute}
}

// sample is what an instance says of itself.
type sample struct {
	of  *instance
	got Diagnostics
	err error
}

// sample asks the serving instance for its memory, if turns have run since the
// last time.
func (s *supervisor) sample() {
	in := s.serving
	if in == nil || s.sampling || in.silent {
		return
	}
	activity := in.conn.activity.Load()
	known := s.memoryKnown()
	if known && activity == in.sampled && in.exceeded.IsZero() && in.conn.Threads() == 0 {
		return
	}
	in.sampled = activity
	s.sampling = true
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sampleTimeout)
		defer cancel()
		got, err := in.conn.Diagnostics(ctx)
		s.samples <- sample{of: in, got: got, err: err} // there is room: one at a time
	})
}

// freshMemory is the memory of an instance before its first turn, or 0. A start
// does not fail with it.
func (p *Process) freshMemory(ctx context.Context, in *instance) int64 {
	if p.cfg.MaxMemory <= 0 || in.child == nil || in.err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	got, err := in.conn.Diagnostics(ctx)
	if err != nil {
		return 0 // the first sample says why
	}
	return got.Memory
}

// weigh acts on a sample.
func (s *supervisor) weigh(taken sample) {
	s.sampling = false
	in := taken.of
	if in != s.serving {
		return
	}
	if taken.err != nil {
		if refused := (*CallError)(nil); errors.As(taken.err, &refused) {
			in.silent = true
			if s.cfg.MaxMemory > 0 {
				s.log().Warn("this release of codex does not tell its memory, which is not limited", "error", taken.err)
			}
		}
		return
	}
	s.setMemory(taken.got.Memory)
	if s.cfg.MaxMemory <= 0 || taken.got.Memory <= s.cfg.MaxMemory {
		in.exceeded, in.warned = time.Time{}, false
		return
	}
	s.exceeded(in, taken.got.Memory)
}

// exceeded replaces an instance whose memory is above the limit. The floor
// keeps it from doing so again and again, unless each time gains much: then it
// is enough that the one before is gone.
func (s *supervisor) exceeded(in *instance, memory int64) {
	now := time.Now()
	gains := in.fresh > 0 && in.fresh <= s.cfg.MaxMemory/2
	if in.exceeded.IsZero() {
		in.exceeded = now
		if gains {
			s.floor.failures = 0
		}
		s.floor.lasted(now.Sub(in.since))
	}
	why := fmt.Sprintf("its memory of %s is above the limit of %s", humanize.IBytes(uint64(memory)), humanize.IBytes(uint64(s.cfg.MaxMemory)))
	switch {
	case in.child == nil:
		s.warnOnce(in, "the remote codex app-server is too large, and cannot be replaced from here", why)
	case s.next != nil:
	case now.Before(s.replaced) && !gains:
		s.warnOnce(in, "the codex app-server is too large, and will be replaced later: it was replaced just before; check max_memory", why)
	case now.Before(s.replaced) && s.Status().Draining > 0:
		s.warnOnce(in, "the codex app-server is too large, and will be replaced later: the one before has turns that go on", why)
	default:
		s.replaced = now.Add(s.floor.next())
		if err := s.replace(why); err != nil {
			s.log().Error("replacing the codex app-server", "reason", why, "error", err)
		}
	}
}

// warnOnce tells of an instance once, until its memory is below the limit again.
func (s *supervisor) warnOnce(in *instance, message, why string) {
	if !in.warned {
		in.warned = true
		s.log().Warn(message, "reason", why, "pid", in.pid(), "address", s.address)
	}
}

func (p *Process) memoryKnown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory > 0
}

func (p *Process) setMemory(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory = bytes
	p.hasChanged()
}
