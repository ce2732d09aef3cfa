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
	// Ready gets an element when Take may have something new.
	Ready() <-chan struct{}
	// Take returns the events that are there, or why no more will come.
	Take(spent []codexrpc.Event) ([]codexrpc.Event, error)
}

// Consumer is the client's side of a turn: an encoder and what it writes to.
type Consumer interface {
	// Consume takes outputs, in order. The slice is valid during the call.
	Consume([]Output) error
	// NextWake is when Wake wants to be called if nothing else happens.
	NextWake() time.Duration
	// Wake does what is due when nothing has happened: a header, a keepalive.
	Wake() error
}

// Drive runs a turn until its last output has been consumed. idle bounds the
// silence of the model: the time without an event of the turn, other than news of a
// failed attempt.
// A failed turn is a matter between the machine and the consumer; the error
// returned here is the consumer's own, or ctx's: the client has gone. A ctx that
// ends with ErrShutdown fails the turn instead: the client is still there.
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
		if events, err = source.Take(events); len(events) > 0 {
			if alive(events) {
				silence.Reset(idle)
			}
			if err := consume(consumer, m.Feed(events)); err != nil || m.Done() {
				return err
			}
			grace.watch(m)
			continue
		}
		if err != nil {
			return consume(consumer, m.Fail(err))
		}
		select {
		case <-source.Ready():
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, ErrShutdown) {
				return err
			}
			return consume(consumer, m.Fail(ErrShutdown))
		case <-grace.timer.C:
			if err := consume(consumer, m.GraceOver()); err != nil || m.Done() {
				return err
			}
			grace.watch(m)
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

// graceTimer runs for the grace of a machine.
type graceTimer struct {
	timer      *time.Timer
	generation int
}

func newGraceTimer() *graceTimer {
	return &graceTimer{timer: time.NewTimer(math.MaxInt64)}
}

// watch begins the grace when the machine has begun a new one.
func (g *graceTimer) watch(m *Machine) {
	after, generation, running := m.Grace()
	if running && generation != g.generation {
		g.generation = generation
		g.timer.Reset(after)
	}
}

// consume passes outputs on if there are any.
func consume(consumer Consumer, outputs []Output) error {
	if len(outputs) == 0 {
		return nil
	}
	return consumer.Consume(outputs)
}

// alive reports whether events are more than news of a failed attempt.
func alive(events []codexrpc.Event) bool {
	for i := range events {
		if events[i].Kind != codexrpc.EventError {
			return true
		}
	}
	return false
}
