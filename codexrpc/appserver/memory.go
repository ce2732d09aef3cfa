package appserver

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// checkMemory publishes the memory of the serving instance and replaces the
// instance if that is above the limit. A release that refuses to report its
// memory has no limit.
func (s *supervisor) checkMemory(in *instance, probe codexrpc.Probe) {
	limit := s.cfg.MaxMemory
	if probe.Err != nil {
		refused := (*codexrpc.CallError)(nil)
		if limit > 0 && errors.As(probe.Err, &refused) && !errors.Is(probe.Err, codexrpc.ErrOverloaded) {
			s.warnOnce(in, "this release of codex does not tell its memory, which is not limited", probe.Err.Error())
		}
		return
	}
	memory := probe.Diagnostics.Memory
	s.setMemory(memory)
	if memory <= limit/2 {
		in.roomy = true
	}
	if limit <= 0 || memory <= limit {
		in.warned = false
		return
	}
	why := fmt.Sprintf("its memory of %s is above the limit of %s", humanize.IBytes(uint64(memory)), humanize.IBytes(uint64(limit)))
	// A roomy instance took its time to grow, as the next one will.
	helps := in.roomy && s.Status().Draining == 0
	if !s.replaceForHealth(why, helps) {
		s.warnOnce(in, "the codex app-server is too large, and will be replaced later: that was done less than a minute ago; check max_memory", why)
	}
}

// warnOnce logs a warning about the memory of an instance, once until the memory
// is below the limit again.
func (s *supervisor) warnOnce(in *instance, message, why string) {
	if !in.warned {
		in.warned = true
		s.log().Warn(message, "reason", why, "pid", in.pid())
	}
}
