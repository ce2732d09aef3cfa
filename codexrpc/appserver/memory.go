package appserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// freshTimeout bounds the look at a fresh app-server's memory, which its start
// waits for.
const freshTimeout = time.Second

// newFloor makes the pauses between replacements for memory that gain little.
// They are never below a minute, and double while an app-server is above the
// limit within minutes: then the limit is too low, and replacing does not help.
func newFloor() backoff {
	return backoff{first: 80 * time.Second, most: 30 * time.Minute, stable: 5 * time.Minute}
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
		return 0 // the first probe says why
	}
	return got.Memory
}

// weigh acts on the memory of the instance that serves.
func (s *supervisor) weigh(in *instance, found finding) {
	if found.Err != nil {
		refused := (*codexrpc.CallError)(nil)
		if s.cfg.MaxMemory > 0 && !in.silent && errors.As(found.Err, &refused) && !errors.Is(found.Err, codexrpc.ErrOverloaded) {
			in.silent = true
			s.log().Warn("this release of codex does not tell its memory, which is not limited", "error", found.Err)
		}
		return
	}
	s.setMemory(found.Diagnostics.Memory)
	if s.cfg.MaxMemory <= 0 || found.Diagnostics.Memory <= s.cfg.MaxMemory {
		in.exceeded, in.warned = time.Time{}, false
		return
	}
	s.exceeded(in, found.Diagnostics.Memory)
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

func (p *Process) setMemory(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory = bytes
	p.hasChanged()
}
