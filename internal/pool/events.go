package pool

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

const (
	eventReady        = "codex.app_server_ready"
	eventUnresponsive = "codex.app_server_unresponsive"
	eventExited       = "codex.app_server_exited"
	eventLogin        = "codex.login_changed"
	eventPlan         = "codex.plan_used"
	eventVersion      = "codex.version_changed"
	eventModel        = "codex.default_model_changed"
)

// maxEvents bounds the events of a process that wait to be emitted.
const maxEvents = 64

type event struct {
	name string
	data map[string]any
}

// observe handles a new status of the app-server, without waiting. Its calls do not overlap.
func (p *Process) observe(s appserver.Status) {
	p.Conversations.Follow(p.Serving())
	p.login.observe(s, p.tracker.last.AccountKnown)
	for _, m := range p.currentHolders() {
		m.observe(s)
	}
	if e := p.tracker.update(s); e != nil {
		p.post(*e)
	}
}

func (p *Process) post(e event) {
	e.data["app_server"] = p.id
	p.queue(e)
}

// queue queues an event without waiting. The event is lost if slow event handlers have filled the queue.
func (p *Process) queue(e event) {
	p.eventsMu.Lock()
	defer p.eventsMu.Unlock()
	select {
	case p.events <- e:
	default: // the queue is full, or p.events is nil
	}
}

// endEvents waits until the events of a stopped process are emitted.
func (p *Process) endEvents() {
	p.eventsMu.Lock()
	close(p.events)
	p.events = nil
	p.eventsMu.Unlock()
	select {
	case <-p.done:
	case <-time.After(5 * time.Second): // an event handler has not returned
	}
}

func (p *Process) emitEvents(events <-chan event) {
	defer close(p.done)
	for e := range events {
		if e.name == eventReady {
			p.supervisor.opts.Ready(p)
		}
		p.emit(e)
	}
}

// emit emits e through the configuration that emitter returns. If that configuration is still
// starting, emit waits for it. If the configuration ends instead, emit calls emitter again.
func (p *Process) emit(e event) {
	for c := p.emitter(); c != nil; c = p.emitter() { // nil: the program is exiting
		select {
		case <-c.opened:
			c.emit(e.name, e.data)
			return
		case <-c.ctx.Done(): // c has ended; another configuration may hold the process
		}
	}
}

type stateTracker struct {
	last appserver.Status
	pid  int // of the program that runs or ran last: Status.PID is 0 again after the program's end
}

// update records a new status, and returns the event of the change, or nil.
func (t *stateTracker) update(s appserver.Status) *event {
	last, pid := t.last, t.pid
	t.last = s
	if s.PID != 0 || s.State == appserver.StateStarting {
		t.pid = s.PID // 0 at the beginning of a start
	}
	hasEnded := func(state appserver.State) bool {
		return state == appserver.StateNew || state == appserver.StateBackoff || state == appserver.StateStopped
	}
	startsAtOnce := s.State == appserver.StateStarting && last.State == appserver.StateStopping // one has ended, and the next starts without a pause
	switch {
	case s.State == appserver.StateReady && (last.State != appserver.StateReady || s.Replacements != last.Replacements):
		return &event{eventReady, map[string]any{"pid": s.PID, "version": s.Version, "restarts": s.Restarts, "replacements": s.Replacements}}
	case s.State == appserver.StateUnresponsive && last.State != appserver.StateUnresponsive:
		return &event{eventUnresponsive, map[string]any{"pid": s.PID, "version": s.Version, "restarts": s.Restarts, "reason": s.Reason}}
	case hasEnded(s.State) && !hasEnded(last.State), startsAtOnce:
		return &event{eventExited, map[string]any{
			"pid": pid, "version": s.Version, "restarts": last.Restarts, "reason": s.Reason,
			"stopped": s.State == appserver.StateStopped,
		}}
	}
	return nil
}
