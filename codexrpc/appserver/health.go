package appserver

import (
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// probeEvery is the pause between two probes. One costs the app-server a tenth
	// of a millisecond.
	probeEvery = 2 * time.Second
	// probeWait is how long the answer to a probe may take before the app-server
	// counts as unresponsive.
	probeWait = 4 * time.Second
	// maxMissed is how many probes in a row may go without an answer and without
	// any other news. Then the app-server is given up. An app-server on this machine
	// can be slow, but the network to a remote one can be gone for a while.
	maxMissed       = 3
	maxMissedRemote = 6
)

// finding is what a probe has found of an instance.
type finding struct {
	of *instance
	codexrpc.Probe
}

// watch begins the heartbeat of an instance whose handshake is over.
func (p *Process) watch(in *instance) {
	if in.err != nil {
		return
	}
	heartbeat := p.heartbeat
	if in.child == nil {
		heartbeat.MaxMissed = maxMissedRemote
	}
	in.conn.Monitor(heartbeat, func(probe codexrpc.Probe) {
		select {
		case p.probes <- finding{in, probe}:
		case <-in.conn.Done():
		}
	})
}

// examine acts on what a probe has found.
func (s *supervisor) examine(found finding) {
	in := found.of
	if in != s.serving {
		return
	}
	s.suspect(in, found)
	s.weigh(in, found)
	if found.Unanswered != "" {
		s.replaceDeaf(in, found.Unanswered)
	}
}

// suspect keeps new turns from an instance that is silent, until it answers. Its
// own turns wait with it.
func (s *supervisor) suspect(in *instance, found finding) {
	unresponsive := s.Status().State == StateUnresponsive
	switch {
	case found.Missed > 0 && !unresponsive:
		s.log().Warn("the codex app-server does not answer", "pid", in.pid(), "address", s.address, "threads", in.conn.Threads())
		s.become(Status{
			State: StateUnresponsive, PID: in.pid(), Version: in.version,
			Reason: fmt.Sprintf("it has been silent for %s", s.heartbeat.Wait),
			Remedy: "it is silent, and is replaced if it stays so",
		})
	case found.Missed == 0 && unresponsive:
		s.log().Info("the codex app-server answers again", "pid", in.pid(), "address", s.address)
		s.ready(in)
	}
}

// replaceDeaf replaces an instance that is alive but leaves calls unanswered. Turns
// on it that go on are not touched.
func (s *supervisor) replaceDeaf(in *instance, method string) {
	now := time.Now()
	if !in.deaf {
		in.deaf = true
		s.floor.lasted(now.Sub(in.since))
	}
	if s.next != nil || now.Before(s.replaced) {
		return
	}
	s.replaced = now.Add(s.floor.next())
	why := fmt.Sprintf("it left %d calls of %s in a row unanswered", codexrpc.MaxUnanswered, method)
	if err := s.replace(why); err != nil {
		s.log().Error("replacing the codex app-server", "reason", why, "error", err)
	}
}
