package codexrpc

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var testHeartbeat = Heartbeat{Every: 2 * time.Second, Wait: 4 * time.Second, MaxMissed: 3}

// A call that times out causes a probe, and the second one in a row is reported.
func TestTimeoutProbesAtOnce(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		found := make(chan Probe, 1)
		c.Monitor(Heartbeat{Every: time.Hour, Wait: time.Second, MaxMissed: 3}, func(v Probe) { found <- v })
		p.answer(p.expect(methodDiagnostics), `{}`)
		<-found
		done := listModels(t.Context(), c)
		p.expect(methodModelList)
		if err := <-done; !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.Missed != 0 || v.Err != nil || v.Unanswered != "" {
			t.Errorf("found %+v", v)
		}
		done = listModels(t.Context(), c)
		p.expect(methodModelList)
		<-done
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.Unanswered != methodModelList {
			t.Errorf("after two calls it found %+v", v)
		}
		late := listModels(t.Context(), c)
		p.answer(p.expect(methodModelList), `{"data":[]}`)
		if err := <-late; err != nil || c.calls.unansweredMethod() != "" {
			t.Errorf("after an answer (%v) it is deaf to %q", err, c.calls.unansweredMethod())
		}
	})
}

// TestProbeNeedsNoSlot checks that probes are sent while all slots are taken.
func TestProbeNeedsNoSlot(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		for range maxInFlight {
			listModels(t.Context(), c)
			p.expect(methodModelList)
		}
		found := make(chan Probe, 1)
		c.Monitor(Heartbeat{Every: time.Second, Wait: time.Second, MaxMissed: 3}, func(v Probe) { found <- v })
		p.answer(p.expect(methodDiagnostics), `{}`)
		if v := <-found; v.Err != nil {
			t.Errorf("found %+v", v)
		}
	})
}

// moving is a transport with progress of its own.
type moving struct {
	*peer
	moved func() uint64
}

func (m moving) Progress() uint64 { return m.moved() }

// Probes are not missed while the transport makes progress.
func TestProgressIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		busyUntil := time.Now().Add(10 * time.Minute)
		c := NewConn(moving{p, func() uint64 { return uint64(min(time.Now().UnixNano(), busyUntil.UnixNano())) }}, Options{})
		defer c.Close()
		go func() {
			for { // read, and not answered
				select {
				case <-p.fromClient:
				case <-p.closed:
					return
				}
			}
		}()
		most := 0
		c.Monitor(testHeartbeat, func(v Probe) {
			if time.Now().Before(busyUntil) {
				most = max(most, v.Missed)
			}
		})
		<-c.Done()
		if late := time.Since(busyUntil); most != 0 || late < 0 || late > testHeartbeat.Every+4*testHeartbeat.Wait {
			t.Errorf("it missed %d, and was given up %s after the last movement", most, late)
		}
	})
}

// The connection to a silent app-server ends after so many probes.
func TestSilentAppServer(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var missed []int
		begin := time.Now()
		c.Monitor(testHeartbeat, func(v Probe) { missed = append(missed, v.Missed) })
		for range testHeartbeat.MaxMissed {
			p.expect(methodDiagnostics)
		}
		<-c.Done()
		if took := time.Since(begin); took != 3*testHeartbeat.Wait || fmt.Sprint(missed) != "[1 2]" || !errors.Is(c.Err(), ErrUnresponsive) {
			t.Errorf("after %s and %v: %v", took, missed, c.Err())
		}
	})
}
