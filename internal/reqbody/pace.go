package reqbody

import (
	"io"
	"time"
)

// pace reads a body that must come at a rate. A client begins with paceGrace; each
// byte adds time, up to paceGrace again, so that a body may come in bursts.
type pace struct {
	body  io.Reader
	timer *time.Timer
	due   time.Time // when the timer fires
	last  time.Time // no byte adds time beyond this
}

const (
	// MinRate is the rate at which a body must come, in bytes a second.
	MinRate = 1 << 10
	// paceGrace is how long a client may be silent that was faster before.
	paceGrace = 15 * time.Second
	// MaxTime is how long a body may take in all. OpenAI's clients wait as long
	// for an answer.
	MaxTime = 10 * time.Minute
)

// newPace starts the timer. It calls tooSlow when the time has passed.
func newPace(body io.Reader, tooSlow func()) *pace {
	now := time.Now()
	return &pace{body, time.AfterFunc(paceGrace, tooSlow), now.Add(paceGrace), now.Add(MaxTime)}
}

// Read reads from the body. Once the timer has fired, no byte restarts it.
func (p *pace) Read(to []byte) (int, error) {
	n, err := p.body.Read(to)
	if n > 0 && p.timer.Stop() {
		now := time.Now()
		p.due = p.due.Add(time.Duration(n) * time.Second / MinRate)
		for _, most := range []time.Time{now.Add(paceGrace), p.last} {
			if p.due.After(most) {
				p.due = most
			}
		}
		p.timer.Reset(p.due.Sub(now))
	}
	return n, err
}

// stop stops the timer.
func (p *pace) stop() { p.timer.Stop() }
