package appserver

import (
	"errors"
	"sync"
	"time"
)

const reasonStopped = "it was stopped"

// errStopped says that somebody has called Stop.
var errStopped = errors.New(reasonStopped)

// supervisor is the one goroutine that decides which instances a process has.
// It either starts one, or has one that serves, perhaps with the next beside
// it, or waits for the next start.
type supervisor struct {
	*Process
	starting     *instance        // nobody serves before it
	serving      *instance        // takes new turns
	next         *instance        // takes over from serving once it has begun
	why          string           // there is a next one
	retry        <-chan time.Time // the next start is due; nil: none is planned
	replaceAfter time.Time        // no replacement for health before this
}

// supervise runs one instance after another until the process is stopped.
func (p *Process) supervise(first *instance, err error) {
	s := &supervisor{Process: p, starting: first}
	if err != nil {
		s.pause(err)
	}
	for {
		select {
		case <-p.stop:
			s.end()
			return
		case <-s.retry:
			s.retry = nil
			s.start(s.Status().Reason)
		case <-s.starting.started():
			s.begun()
		case <-s.next.started():
			s.takeOver()
		case <-s.serving.exit():
			s.lost(errors.New("the codex app-server exited"))
		case <-s.serving.hangUp():
			s.lost(s.serving.conn.Err())
		case found := <-p.probes:
			s.checkHealth(found)
		case answer := <-p.orders:
			answer <- s.restart()
		case <-p.drained:
			s.adoptOrphans()
			s.observe()
		}
	}
}

// The channels of an instance that there may not be: nil ones never deliver.

func (in *instance) started() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.begun
}

func (in *instance) exit() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.exited()
}

func (in *instance) hangUp() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.conn.Done()
}

// start starts an instance again when there is none. why, which may be empty, is
// what has become of the last one.
func (s *supervisor) start(why string) {
	s.mu.Lock()
	s.status.Restarts++
	s.mu.Unlock()
	s.become(Status{State: StateStarting, Reason: why})
	in, err := s.launch()
	if err != nil {
		s.pause(err)
		return
	}
	s.forked(in)
	s.starting = in
}

// restart replaces the instance that serves. If none does, and the next start is
// only waited for, it is made now: what was wrong may have been mended.
func (s *supervisor) restart() error {
	if s.retry == nil {
		return s.replace("it was asked for")
	}
	s.retry = nil
	s.start(s.Status().Reason)
	return nil
}

// begun lets the instance serve that has started, or gives it up.
func (s *supervisor) begun() {
	in := s.starting
	s.starting = nil
	if in.err != nil {
		s.pause(s.giveUp(in, in.err))
		return
	}
	in.since = time.Now()
	s.serving = in
	s.ready(in)
	s.monitor(in)
	s.adoptOrphans()
	s.log().Info("the codex app-server is ready", "version", in.version, "pid", in.pid(), "address", s.address)
}

// lost gives up the instance that serves. One that was to replace it is the
// next to start. Else another is started at once if the lost one was sound: it has
// completed a turn, which an app-server that keeps crashing does not, or was ready
// for long. If it was not, the next start follows after a pause.
func (s *supervisor) lost(reason error) {
	in := s.serving
	s.serving = nil
	sound := in.conn.HasCompletedTurn() || s.failures.isStable(time.Since(in.since))
	if sound {
		s.failures.failures = 0
	}
	s.abandon(in)
	in.conn.Fail(reason)
	reason = s.giveUp(in, reason)
	switch {
	case s.next != nil:
		s.log().Error("the codex app-server ended before its replacement was ready", "reason", reason.Error())
		s.become(Status{State: StateStarting, Reason: reason.Error()})
		s.forked(s.next)
		s.starting, s.next = s.next, nil
	case sound:
		s.log().Error("the codex app-server ended, and is started again", "reason", reason.Error())
		s.start(reason.Error())
	default:
		s.pause(reason)
	}
}

// giveUp stops an instance and returns its epitaph.
func (s *supervisor) giveUp(in *instance, reason error) error {
	s.become(Status{State: StateStopping, Reason: reason.Error(), Remedy: remedy(reason), PID: in.pid(), Version: in.version})
	s.stopInstance(in)
	return in.epitaph(reason)
}

// stopInstance stops an instance. What does not go is an operator's matter.
func (p *Process) stopInstance(in *instance) {
	if left := in.stop(p.cfg.StopTimeout); left != nil {
		p.log().Error("stopping the codex app-server", "error", left, "pid", in.pid())
	}
}

// pause plans the next start.
func (s *supervisor) pause(reason error) {
	if errors.Is(reason, errStopped) {
		return // the order to stop is what comes next
	}
	d := s.failures.next()
	s.become(Status{State: StateBackoff, Reason: reason.Error(), Remedy: remedy(reason), RetryAt: time.Now().Add(d)})
	s.log().Error("the codex app-server is not running", "reason", reason.Error(), "next_start_in", d.Round(time.Millisecond).String())
	s.retry = time.After(d)
}

// end stops all instances, those that drain included: they have heard of it.
func (s *supervisor) end() {
	var ends sync.WaitGroup
	for _, in := range []*instance{s.starting, s.serving, s.next} {
		if in == nil {
			continue
		}
		if in != s.next {
			s.become(Status{State: StateStopping, Reason: reasonStopped, PID: in.pid()})
		}
		ends.Go(func() {
			<-in.begun // it gives up at once
			s.stopInstance(in)
		})
	}
	ends.Wait()
	s.background.Wait()
	s.removePrivateDir()
	s.become(Status{State: StateStopped, Reason: reasonStopped})
	close(s.done)
}
