package appserver

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// errStopped is the reason why a process has ended if Stop was called.
var errStopped = errors.New("it was stopped")

// supervisor starts, replaces and stops the instances (running app-servers) of a process, in one
// goroutine. At any time, an instance starts, an instance serves, or the supervisor waits for the
// next start. While one instance serves, its replacement may be starting.
type supervisor struct {
	*Process
	launched     bool             // an instance was launched before
	starting     *instance        // being started while no instance serves
	serving      *instance        // takes new turns
	next         *instance        // replaces serving once its start has ended
	why          string           // the reason for next
	retry        <-chan time.Time // the next start is due; nil: none is planned
	replaceAfter time.Time        // no replacement for health before this
}

// run is the supervisor's goroutine. It starts instances and handles events until the process is
// stopped.
func (s *supervisor) run() {
	for {
		select {
		case <-s.ctx.Done():
			s.stopAll()
			return
		case <-s.retry:
			s.start(s.Status().Reason)
		case event := <-s.events:
			event(s)
		}
	}
}

// start launches an instance. No instance may be starting or serving. why is the reason why the
// last instance ended, or empty.
func (s *supervisor) start(why string) {
	s.retry = nil
	if s.launched {
		s.board.update(func() { s.board.status.Restarts++ })
	}
	s.launched = true
	s.change(Status{State: StateStarting, Reason: why})
	in, err := s.launch()
	if err != nil {
		s.backOff(err)
		return
	}
	s.board.update(func() { s.board.status.PID = in.pid() })
	s.starting = in
}

// restart replaces the serving instance. In the pause after a failed start or an early crash, no
// instance serves; then restart starts one at once.
func (s *supervisor) restart() error {
	if s.retry == nil {
		return s.replace("it was asked for")
	}
	s.start(s.Status().Reason)
	return nil
}

// handleStart runs when the start of an instance has succeeded or failed. A started instance
// becomes the serving one. After a failure, handleStart plans the next start.
func (s *supervisor) handleStart(in *instance) {
	if in == s.next {
		s.handleReplacement()
		return
	}
	s.starting = nil
	defer in.stderr.release(s.log())
	if in.err == nil {
		s.serve(in)
		s.interruptUnfinished()
		s.log().Info("the codex app-server is ready", "version", in.version, "pid", in.pid(), "address", s.address)
		return
	}
	reason := s.stopFailed(in, in.err)
	if s.startsWithLog(in) {
		s.start("")
		return
	}
	s.backOff(reason)
}

// serve makes an instance the serving one.
func (s *supervisor) serve(in *instance) {
	in.since = time.Now()
	old := s.serving
	s.serving = in
	s.publish(in, old)
	s.monitor(in)
	s.board.update(func() { s.board.account = accountState{conn: in.conn, asked: time.Now()} })
	s.background.Go(func() { s.learnAccount(in) })
	if in.home != nil {
		s.background.Go(func() { s.keepLogin(in) })
	}
}

// startsWithLog checks whether the stopped instance in failed because Codex's own log was turned
// off. If so, it turns the log on for all later instances. It returns true only if this call has
// turned the log on.
func (p *Process) startsWithLog(in *instance) bool {
	return strings.Contains(in.stderr.tail(), needsLog) && p.files.withLog.CompareAndSwap(false, true)
}

// publish makes new turns use in, the serving instance. old is the instance that it replaces, or
// nil.
func (p *Process) publish(in, old *instance) {
	p.models.serve(in.models)
	p.login.serve(in.login)
	settings := providerSettings{}
	if in.home != nil {
		settings = newProviderSettings(&in.home.config.providerConfig, in.version, p.cfg.Provider)
	}
	p.provider.serve(settings)
	p.board.serve(in, old)
	p.observe()
}

// handleFailure stops the serving instance after its connection has ended. If a replacement is
// already starting, the replacement will serve next. Otherwise handleFailure starts a new instance:
// at once if the failed instance has completed a turn or was ready for long, else after a pause, in
// case the program keeps crashing.
func (s *supervisor) handleFailure(in *instance) {
	if in != s.serving {
		return
	}
	s.serving = nil
	stable := in.conn.HasCompletedTurn() || time.Since(in.since) >= s.failures.stable
	if stable {
		s.failures.failures = 0
	}
	s.unfinished.add(in)
	reason := s.stopFailed(in, in.conn.Err())
	switch {
	case s.next != nil:
		s.log().Error("the codex app-server ended before its replacement was ready", "reason", reason.Error())
		s.change(Status{State: StateStarting, Reason: reason.Error(), PID: s.next.pid()})
		s.starting, s.next = s.next, nil
	case stable:
		s.log().Error("the codex app-server ended, and is started again", "reason", reason.Error())
		s.start(reason.Error())
	default:
		s.backOff(reason)
	}
}

// stopFailed stops an instance that has failed. It returns the reason with the exit status and
// the last lines of stderr.
func (s *supervisor) stopFailed(in *instance, reason error) error {
	status := failed(StateStopping, reason)
	status.PID, status.Version = in.pid(), in.version
	s.change(status)
	s.stopInstance(in)
	return in.withExitDetails(reason)
}

// stopInstance stops an instance and logs if that fails.
func (p *Process) stopInstance(in *instance) {
	if err := in.stop(p.cfg.StopTimeout); err != nil {
		p.log().Error("stopping the codex app-server", "error", err, "pid", in.pid())
	}
}

// backOff plans the next start after a pause.
func (s *supervisor) backOff(reason error) {
	if errors.Is(reason, errStopped) {
		return // run stops next
	}
	pause := s.failures.next()
	status := failed(StateBackoff, reason)
	status.RetryAt = time.Now().Add(pause)
	s.change(status)
	s.log().Error("the codex app-server is not running", "reason", reason.Error(), "next_start_in", pause.Round(time.Millisecond).String())
	s.retry = time.After(pause)
}

// stopAll stops all instances. Draining instances stop by themselves.
func (s *supervisor) stopAll() {
	var stops sync.WaitGroup
	for _, in := range []*instance{s.starting, s.serving, s.next} {
		if in == nil {
			continue
		}
		if in != s.next {
			s.change(Status{State: StateStopping, Reason: errStopped.Error(), PID: in.pid()})
		}
		stops.Go(func() {
			<-in.startDone // at once, since p.ctx has ended
			s.stopInstance(in)
			in.stderr.release(s.log())
		})
	}
	stops.Wait()
	s.background.Wait()
	if err := s.files.remove(); err != nil {
		s.log().Warn("removing the private directory of codex", "error", err)
	}
	s.change(Status{State: StateStopped, Reason: errStopped.Error()})
	close(s.done)
}

// backoff computes the pauses between the starts of a program that keeps failing.
type backoff struct {
	first, most time.Duration
	stable      time.Duration // a program that was ready for so long is stable
	failures    int           // in a row
}

func newBackoff() backoff {
	return backoff{first: 100 * time.Millisecond, most: 30 * time.Second, stable: 30 * time.Second}
}

// next counts a failure and returns the pause before the next start. The pause doubles with each
// failure, from first to most. next then subtracts a random part of up to a quarter, so that many
// processes do not restart at the same moment.
func (b *backoff) next() time.Duration {
	pause := min(b.first<<min(b.failures, 10), b.most)
	b.failures++
	return pause - rand.N(pause/4+1)
}
