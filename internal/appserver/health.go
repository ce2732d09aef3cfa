package appserver

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// probeEvery is the pause between two probes: requests that check whether the app-server
	// answers. A probe costs the app-server a tenth of a millisecond.
	probeEvery = 2 * time.Second
	// probeWait is how long a probe may take until the app-server counts as unresponsive.
	probeWait = 4 * time.Second
	// maxMissed is how many missed probes in a row end the connection. A probe is missed if neither
	// its answer nor anything else arrives within probeWait.
	maxMissed = 3
	// replaceEvery is the shortest pause between two replacements by replaceForHealth. A
	// replacement for which surelyHelps is true needs no pause.
	replaceEvery = time.Minute
)

func (s *supervisor) checkHealth(in *instance, probe codexrpc.Probe) {
	if in != s.serving {
		return
	}
	s.checkResponsive(in, probe.Missed)
	s.checkMemory(in, probe)
	if in.home.wasRemoved() {
		s.replaceForHealth("its private directory was removed", false)
	}
	if probe.Unanswered != "" {
		s.replaceForHealth(fmt.Sprintf("it left %d calls of %s in a row unanswered", codexrpc.MaxUnanswered, probe.Unanswered), false)
	}
}

// checkResponsive stops new turns for an instance that has missed a probe, until the instance
// answers a probe again. The running turns of the instance continue.
func (s *supervisor) checkResponsive(in *instance, missed int) {
	unresponsive := s.Status().State == StateUnresponsive
	switch {
	case missed > 0 && !unresponsive:
		s.Log().Warn("the codex app-server does not answer", "pid", in.pid(), "threads", in.conn.Threads())
		s.setStatus(Status{
			State: StateUnresponsive, PID: in.pid(), Version: in.version,
			Reason: fmt.Sprintf("it has been silent for %s", s.times.heartbeat.Wait),
			Remedy: "it is silent, and is replaced if it stays so",
		})
	case missed == 0 && unresponsive:
		s.Log().Info("the codex app-server answers again", "pid", in.pid())
		s.publish(in, nil)
	}
}

// replaceForHealth begins to replace the serving instance and returns true, even if the replacement fails.
// If there is a replacement already, it does nothing, and returns false only if the replacement waits for
// its account. It also does nothing and returns false if its last attempt was less than replaceEvery ago:
// the instance of that attempt seems to have the same fault. If surelyHelps is true, the next instance will
// not have the fault, so the last attempt does not matter.
func (s *supervisor) replaceForHealth(reason string, surelyHelps bool) bool {
	if s.next != nil {
		return !s.nextWaits
	}
	now := time.Now()
	if now.Before(s.replaceAfter) && !surelyHelps {
		return false
	}
	s.replaceAfter = now.Add(s.times.replaceEvery)
	if err := s.replace(reason); err != nil {
		s.Log().Error("replacing the codex app-server", "reason", reason, "error", err)
	}
	return true
}

// checkMemory publishes the serving instance's memory. It replaces an instance with more than MaxMemory.
func (s *supervisor) checkMemory(in *instance, probe codexrpc.Probe) {
	limit := s.cfg.MaxMemory
	if probe.Err != nil {
		return
	}
	memory := in.memory(probe.Diagnostics)
	s.published.update(func() { s.published.memory = memory })
	if memory <= limit/2 {
		in.wasSmall = true
	}
	if limit <= 0 || memory <= limit {
		in.memoryWarned = false
		return
	}
	reason := fmt.Sprintf("its memory of %s is above the limit of %s", humanize.IBytes(uint64(memory)), humanize.IBytes(uint64(limit)))
	// An instance that was small before has grown; a new instance begins small, too. But while a
	// replaced instance drains, replaceEvery applies.
	surelyHelps := in.wasSmall && s.Status().Draining == 0
	if !s.replaceForHealth(reason, surelyHelps) && !in.memoryWarned {
		in.memoryWarned = true
		s.Log().Warn("the codex app-server is too large, and will be replaced later: that was done less than a minute ago, or waits for the account of the next one; check max_memory",
			"reason", reason, "pid", in.pid())
	}
}

// memory returns the memory of an instance, in bytes: the program's own memory or, if that is not known,
// the memory that the app-server reports. Own memory is what is freed when the program ends. It lacks the
// pages of the program file, some 110 MB, which all instances share and the system can drop.
func (in *instance) memory(d codexrpc.Diagnostics) int64 {
	if in.home != nil && d.PID > 0 {
		if own, ok := ownMemory(d.PID); ok {
			return own
		}
	}
	return d.Memory
}
