package codexrpc

import (
	"context"
	"fmt"
	"time"
)

// MaxUnanswered is how many calls of a method must time out in a row until [Probe].Unanswered names it.
const MaxUnanswered = 2

// Heartbeat has the settings of [Conn.Monitor].
type Heartbeat struct {
	Every     time.Duration // the pause between two probes; after a missed probe or a call that timed out, there is no pause
	Wait      time.Duration // how long the answer to a probe may take
	MaxMissed int           // how many missed probes in a row end the connection
}

// Probe is the result of one probe, a call that checks whether the app-server answers.
type Probe struct {
	Diagnostics Diagnostics
	Err         error  // the app-server's refusal, or why there is no answer; nil: the probe succeeded
	Missed      int    // missed probes in a row, including this probe; 0: this probe was not missed
	Unanswered  string // a method whose last MaxUnanswered calls all timed out; empty: there is none
}

// Monitor probes the app-server in the background, at once and until the connection ends. A probe
// is missed if, within h.Wait, neither its answer arrives nor other data moves on the transport:
// megabytes of other messages may delay the answer. report gets each result, but after h.MaxMissed
// missed probes in a row Monitor ends the connection with [ErrUnresponsive] instead.
func (c *Conn) Monitor(h Heartbeat, report func(Probe)) {
	c.background(func(time.Time) { c.probeUntilEnd(h, report) }, nil)
}

// probeUntilEnd does the work of Monitor.
func (c *Conn) probeUntilEnd(h Heartbeat, report func(Probe)) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	missed := 0
	for {
		select {
		case <-pause.C:
		case <-c.calls.probeNow:
		case <-c.done:
			return
		}
		progressBefore := c.progress()
		ctx, cancel := context.WithTimeout(context.Background(), h.Wait)
		diagnostics, err := c.Diagnostics(ctx)
		answered := err == nil || ctx.Err() == nil // a refusal is an answer, too
		cancel()
		if c.Err() != nil {
			return
		}
		if missed++; answered || c.progress() != progressBefore {
			missed = 0
		}
		if missed == h.MaxMissed {
			c.Fail(fmt.Errorf("%w: it was silent for %s", ErrUnresponsive, time.Duration(missed)*h.Wait))
			return
		}
		report(Probe{Diagnostics: diagnostics, Err: err, Missed: missed, Unanswered: c.calls.unansweredMethod()})
		if missed > 0 {
			pause.Reset(0)
		} else {
			pause.Reset(h.Every)
		}
	}
}

// progress returns the transport's count (see [progressing]), or 0.
func (c *Conn) progress() uint64 {
	if t, ok := c.transport.(progressing); ok {
		return t.Progress()
	}
	return 0
}

// Diagnostics is the app-server's report of itself (ServerDiagnosticsResponse).
type Diagnostics struct {
	PID    int   // process id of the program that answers, on the machine of that program
	Memory int64 // resident memory in bytes; 0: not known
}

// Diagnostics asks the app-server for its memory. The call needs no slot, so it works even while
// maxInFlight other calls are stuck.
func (c *Conn) Diagnostics(ctx context.Context) (Diagnostics, error) {
	var answer struct {
		Process struct {
			ID                  int   `json:"id"`
			ResidentMemoryBytes int64 `json:"residentMemoryBytes"`
		} `json:"process"`
	}
	err := c.call(ctx, call{method: methodDiagnostics, params: struct{}{}, result: &answer, urgent: true})
	if err != nil {
		return Diagnostics{}, err
	}
	return Diagnostics{PID: answer.Process.ID, Memory: answer.Process.ResidentMemoryBytes}, nil
}
