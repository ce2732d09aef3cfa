package turn

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Source is a live turn: a *codexrpc.Thread is one.
type Source interface {
	// Ready gets an element when Recv may have new events.
	Ready() <-chan struct{}
	// Recv returns the new events, or why no more will come. It may reuse spent.
	Recv(spent []codexrpc.Event) ([]codexrpc.Event, error)
}

// Consumer is the client's side of a turn.
type Consumer interface {
	// Consume gets the outputs, in order, at least one. The slice is valid during the
	// call.
	Consume([]Output) error
	// NextWake returns when Wake has to be called if nothing else happens.
	NextWake() time.Duration
	// Wake does what is due: a header, a keepalive.
	Wake() error
}

// Drive runs a turn until its last output has been consumed. idle bounds the silence of
// the model: the time without an event of the turn, other than those about failed
// attempts. The failure of a turn is an output; the error of Drive is that of the
// consumer, or the cause of the end of ctx, which means that the client has gone. If the
// cause is ErrShutdown, the client is still there, and the turn fails instead.
func Drive(ctx context.Context, source Source, m *Machine, consumer Consumer, idle time.Duration) error {
	defer m.Abandon() // once the turn is done this does nothing
	silence := time.NewTimer(idle)
	defer silence.Stop()
	wake := time.NewTimer(consumer.NextWake())
	defer wake.Stop()
	grace := newGraceTimer()
	defer grace.timer.Stop()
	var events []codexrpc.Event
	for {
		var err error
		if events, err = source.Recv(events); len(events) > 0 {
			if alive(events) {
				silence.Reset(idle)
			}
			if err := consume(consumer, m.Feed(events)); err != nil || m.Done() {
				return err
			}
			grace.watch(m)
			continue
		}
		switch {
		case err != nil:
			return consume(consumer, m.Fail(err))
		case grace.over: // and all events that have arrived are processed
			grace.over = false
			if err := consume(consumer, m.GraceOver()); err != nil || m.Done() {
				return err
			}
			grace.watch(m)
		}
		select {
		case <-source.Ready():
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, ErrShutdown) {
				return err
			}
			return consume(consumer, m.Fail(ErrShutdown))
		case <-grace.timer.C:
			grace.over = true
		case <-silence.C:
			return consume(consumer, m.Fail(ErrIdle))
		case <-wake.C:
			if err := consumer.Wake(); err != nil {
				return err
			}
			wake.Reset(consumer.NextWake())
		}
	}
}

// graceTimer measures the grace of a machine.
type graceTimer struct {
	timer      *time.Timer
	generation int
	over       bool // the timer has fired for this generation
}

func newGraceTimer() *graceTimer {
	return &graceTimer{timer: time.NewTimer(math.MaxInt64)}
}

// watch restarts the timer when the machine has started a new grace.
func (g *graceTimer) watch(m *Machine) {
	after, generation, running := m.Grace()
	if running && generation != g.generation {
		g.generation, g.over = generation, false
		g.timer.Reset(after)
	}
}

// consume passes outputs to the consumer if there are any.
func consume(consumer Consumer, outputs []Output) error {
	if len(outputs) == 0 {
		return nil
	}
	return consumer.Consume(outputs)
}

// alive reports whether one of the events is not about a failed attempt.
func alive(events []codexrpc.Event) bool {
	for i := range events {
		if events[i].Kind != codexrpc.EventError {
			return true
		}
	}
	return false
}
