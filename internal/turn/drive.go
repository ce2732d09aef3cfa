package turn

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Source is a live turn, such as a *codexrpc.Thread.
type Source interface {
	// Ready returns a channel. It gets an element when Recv may have new events, and after Wake.
	Ready() <-chan struct{}
	// Wake adds an element to the channel of Ready if the channel is empty.
	Wake()
	// Recv returns the new events, valid until the next call. An error says why no more will come.
	Recv() ([]codexrpc.Event, error)
	// RefuseCalls answers the open calls of the turn with a failure.
	RefuseCalls()
}

// Consumer is the client's side of a turn.
type Consumer interface {
	// Consume gets one or more outputs, in order. Consume must not keep the slice.
	Consume([]Output) error
	// Leave gets the outputs still held when the client has gone: the answer may be stored.
	Leave([]Output)
	// NextWake returns the time until Wake has to be called.
	NextWake() time.Duration
	// Wake writes what is due: a header, or a keepalive.
	Wake() error
}

// Drive runs a turn until its last output has been consumed. The turn fails if no event comes for
// idleTimeout (longer while Codex makes a picture), apart from errors about failed attempts. A failure is
// an output, not an error. Drive returns the consumer's error or, if ctx ends because the client has gone,
// the cause. With the cause ErrShutdown the client is still there: the turn fails with ErrShutdown.
func Drive(ctx context.Context, source Source, m *Machine, consumer Consumer, idleTimeout time.Duration) error {
	defer func() {
		if held := m.Abandon(); len(held) > 0 { // empty if the turn has already ended
			consumer.Leave(held)
		}
	}()
	// Drive waits for one channel only: waiting for several takes more time than a small delta.
	wake := source.Wake
	d := driver{machine: m, source: source, consumer: consumer, idleTimeout: idleTimeout, idleAt: idleTimeout, wakeAt: consumer.NextWake(), graceEnd: never}
	d.timer = lazyTimer{start: time.Now(), timer: time.AfterFunc(never, wake), due: never}
	defer d.timer.timer.Stop()
	defer context.AfterFunc(ctx, wake)()
	for {
		events, err := source.Recv()
		if len(events) > 0 {
			d.active = d.active || slices.ContainsFunc(events, func(e codexrpc.Event) bool { return e.Kind != codexrpc.EventError })
			if err := consume(consumer, m.Feed(events)); err != nil || m.Done() {
				return err
			}
			continue
		}
		if err != nil {
			return consume(consumer, m.Fail(err))
		}
		// All events that have arrived are processed.
		now := d.timer.now()
		next, err := d.runDue(now)
		if err != nil || m.Done() {
			return err
		}
		if ctx.Err() != nil {
			if err := context.Cause(ctx); !errors.Is(err, ErrShutdown) {
				return err
			}
			return consume(consumer, m.Fail(ErrShutdown))
		}
		d.timer.callBy(next, now)
		<-source.Ready()
	}
}

// driver knows what has to be done in a turn, and when. All times count from the start of the turn.
type driver struct {
	machine     *Machine
	source      Source
	consumer    Consumer
	idleTimeout time.Duration
	timer       lazyTimer
	active      bool // since the last call of runDue, there was an event that is not about a failed attempt: the model is at work

	idleAt     time.Duration // when the turn fails if the model stays silent
	refuseAt   time.Duration // when open calls are refused if the model stays silent
	wakeAt     time.Duration // when Wake of the consumer is called
	graceEnd   time.Duration // when GraceOver of the machine is called; never: it is not called
	generation int           // the generation of the last grace for which graceEnd was set
}

// runDue does everything that is due now. next is the time at which runDue has to be called again.
func (d *driver) runDue(now time.Duration) (next time.Duration, err error) {
	if d.active {
		d.active, d.idleAt = false, addTime(now, d.machine.maxSilence(d.idleTimeout))
		d.refuseAt = addTime(now, min(d.idleTimeout/2, maxCallSilence))
	}
	d.updateGrace(now)
	if now >= d.graceEnd {
		d.graceEnd = never
		if err := consume(d.consumer, d.machine.GraceOver()); err != nil || d.machine.Done() {
			return 0, err
		}
		d.updateGrace(now) // GraceOver may have started the grace again
	}
	if now >= d.idleAt {
		return 0, consume(d.consumer, d.machine.Fail(ErrIdle))
	}
	if now >= d.wakeAt {
		if err := d.consumer.Wake(); err != nil {
			return 0, err
		}
		d.wakeAt = addTime(now, d.consumer.NextWake())
	}
	return min(d.idleAt, d.wakeAt, d.graceEnd, d.refuseCalls(now)), nil
}

// maxCallSilence is how long the model may be silent after a call until the call is refused. If the
// response broke off, Codex reports that only after the refusal. The turn then ends well: the client has
// the call. If the model was only slow to write another call, the turn goes on, but its thread is not kept.
const maxCallSilence = 5 * time.Second

// refuseCalls refuses the calls whose results Codex waits for if the response has broken off, or the model
// was silent until refuseAt. next is the time at which refuseCalls has to be called again.
func (d *driver) refuseCalls(now time.Duration) (next time.Duration) {
	m := d.machine
	if m.summary.suspended && !m.done {
		m.summary.suspended = false
		d.source.RefuseCalls()
		return never
	}
	switch {
	case m.done || !m.structured.hasComplete || m.structured.refused:
		return never
	case !m.attempt.itemCut && now < d.refuseAt:
		return d.refuseAt
	}
	m.structured.refused, m.thread.differs = true, true
	d.source.RefuseCalls()
	return never
}

// updateGrace sets the deadline of a [grace] that the machine has started since the last call.
func (d *driver) updateGrace(now time.Duration) {
	if g := d.machine.grace; g.running && g.generation != d.generation {
		d.generation, d.graceEnd = g.generation, addTime(now, d.machine.opts.Grace)
	}
}

const never = time.Duration(math.MaxInt64)

func addTime(t, d time.Duration) time.Duration {
	if d > never-t {
		return never
	}
	return t + d
}

// lazyTimer calls a function at a set time, or earlier. Each event moves a turn's deadlines later, but
// the timer is set only when it fires: setting it each time would wake other OS threads.
type lazyTimer struct {
	start time.Time
	timer *time.Timer
	due   time.Duration // when the timer calls the function, or has called it last; never: the timer is not set
}

func (c *lazyTimer) now() time.Duration { return time.Since(c.start) }

func (c *lazyTimer) callBy(deadline, now time.Duration) {
	if deadline < c.due || c.due <= now { // the timer is set too late, or it has fired
		c.due = deadline
		c.timer.Reset(deadline - c.now())
	}
}

func consume(consumer Consumer, outputs []Output) error {
	if len(outputs) == 0 {
		return nil
	}
	return consumer.Consume(outputs)
}

var (
	// ErrIdle ends a turn without events for the idle timeout. Codex's last error may be added.
	ErrIdle = errors.New("codex sent nothing for the idle timeout")

	// ErrCompacted ends a turn in which Codex begins to summarise a history that does not fit the
	// context window: no answer to the client's conversation would follow.
	ErrCompacted = errors.New("the conversation does not fit the model's context window")

	// ErrOwnTools ends a turn in which Codex has offered the model a tool of its own, or has run such a
	// tool. It does not apply to a web search or a picture tool that the [Options] allow.
	ErrOwnTools = errors.New("codex has offered the model a tool of its own; the operator of this server has to report that, with the release of codex")

	// ErrInventedTool ends a turn whose model has called a tool of Codex that was not offered to the model.
	ErrInventedTool = errors.New("the model called a tool that it does not have; say in the prompt which tools it may call, or use another model")

	// ErrInterrupted ends a turn that was interrupted, but not by this server.
	ErrInterrupted = errors.New("the turn was interrupted")

	// ErrShutdown ends a turn on the server's exit. The client is still there, see [Drive].
	ErrShutdown = errors.New("the server is shutting down")
)
