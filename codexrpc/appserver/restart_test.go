package appserver

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// statesOf records the states of a process.
func statesOf(p *Process) *[]State {
	seen := &[]State{}
	p.SetObserver(func(s Status) { *seen = append(*seen, s.State) })
	return seen
}

// TestRestartAfterACompletedTurn checks that an app-server that has completed a turn
// is started again without a pause, and that waiting callers get the next connection.
func TestRestartAfterACompletedTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		seen := statesOf(p)
		begin := time.Now()
		const kills = 5
		for range kills {
			c := conn(t, p)
			thread := open(t, c)
			d.last().completed(1)
			synctest.Wait()
			thread.Close(nil)
			d.last().kill()
			<-c.Done()
		}
		conn(t, p)
		if s := p.Status(); s.Restarts != kills || s.Reason != "" || time.Since(begin) != 0 {
			t.Errorf("after %s it is %+v", time.Since(begin), s)
		}
		if slices.Contains(*seen, StateBackoff) {
			t.Errorf("it was %v", *seen)
		}
	})
}

// TestRestartAfterALongTime checks that an app-server that was ready for long is
// started again without a pause.
func TestRestartAfterALongTime(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		seen := statesOf(p)
		time.Sleep(time.Minute)
		d.last().kill()
		awaitRestarts(t, p, 1)
		if slices.Contains(*seen, StateBackoff) {
			t.Errorf("it was %v", *seen)
		}
	})
}

// TestRestartPauses checks that the pauses grow for an app-server that completes no
// turn, and that Conn waits for short ones only.
func TestRestartPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		for n, most := range []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
		} {
			begin := time.Now()
			d.last().kill()
			synctest.Wait()
			open(t, conn(t, p)) // begun, and never completed
			if took := time.Since(begin); took > most || took < most-most/4 {
				t.Errorf("after %d ends the pause was %s", n+1, took)
			}
		}
		d.last().kill()
		synctest.Wait()
		var notReady *NotReadyError
		if _, err := p.Conn(t.Context()); !errors.As(err, &notReady) || notReady.State != StateBackoff || notReady.RetryAfter < maxRetryWait {
			t.Errorf("got %v", err)
		}
		begin := time.Now()
		time.Sleep(notReady.RetryAfter - maxRetryWait)
		conn(t, p)
		if took := time.Since(begin); took > notReady.RetryAfter {
			t.Errorf("it came back after %s, and not after %s", took, notReady.RetryAfter)
		}
	})
}

// TestConnDuringTheStop checks that Conn fails at once while the process is being
// stopped.
func TestConnDuringTheStop(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Process, d *doubles) {
		d.last().freeze() // it takes its time
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Stop()
		}()
		awaitState(t, p, StateStopping)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var notReady *NotReadyError
		if _, err := p.Conn(ctx); !errors.As(err, &notReady) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		<-ended
	})
}
