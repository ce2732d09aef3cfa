package fakecodex

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// player plays one turn.
type player struct {
	server *server
	thread *thread
	turn   *turn
	id     string // of the live turn
	start  string // the id of the client's turn/start

	interrupts chan string // capacity 1: the id of the client's turn/interrupt
	interrupt  string      // the one that was awaited
	requests   map[string]<-chan struct{}
	live       *strings.Replacer // of recorded ids
	sent       int
}

// outcome is how a step of a turn went.
type outcome int

const (
	goOn     outcome = iota
	cutShort         // an interrupt came where the recording has none
	stopped          // the server ends
)

// play plays the turn to its end.
func (p *player) play() {
	defer p.leave()
	p.requests = make(map[string]<-chan struct{})
	p.live = strings.NewReplacer(jsontext.Quote(p.turn.thread), jsontext.Quote(p.thread.id), jsontext.Quote(p.turn.id), jsontext.Quote(p.id))
	result := p.misbehave()
	for i := 0; i < len(p.turn.steps) && result == goOn; i++ {
		if p.turn.steps[i].kind == sendEnd {
			p.leave()
		}
		result = p.step(p.turn.steps[i], expects(p.turn.steps[i:]))
	}
	if result == cutShort {
		p.server.answer(p.interrupt, `{}`)
		p.leave()
		p.server.send(completed(p.thread.id, p.id, "interrupted", "null"))
	}
}

// leave makes room for the thread's next turn, before the client can hear of
// this one's end.
func (p *player) leave() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.thread.player == p {
		p.thread.player = nil
		p.refuseLate()
	}
}

// refuseLate refuses an interrupt that nobody looks at any more.
func (p *player) refuseLate() {
	select {
	case id := <-p.interrupts:
		p.server.refuse(id, codeInvalid, "no active turn to interrupt")
	default:
	}
}

// step plays one message. expected says that the recording still has an
// interrupt to come; then one that is early waits for its place.
func (p *player) step(s step, expected bool) outcome {
	switch s.kind {
	case awaitInterrupt:
		return p.await(p.interrupts, nil)
	case awaitAnswer:
		return p.awaitAnswer(p.requests[s.id], expected)
	}
	if result := p.pace(max(s.pause, p.server.opts.Faults.Delay), expected); result != goOn {
		return result
	}
	switch s.kind {
	case sendStartAnswer:
		p.server.send(p.rewrite(s, p.start))
	case sendInterruptAnswer:
		p.server.send(p.rewrite(s, p.interrupt))
	case sendRequest:
		id, answered := p.server.request()
		p.requests[s.id] = answered
		p.server.send(p.rewrite(s, strconv.Itoa(id)))
	default:
		p.server.send(p.live.Replace(s.message))
	}
	p.sent++
	return goOn
}

// rewrite puts the live ids in a message that has an id of its own.
func (p *player) rewrite(s step, id string) string {
	return strings.Replace(p.live.Replace(s.message), `"id":`+s.id, `"id":`+id, 1)
}

// await waits for an interrupt or for done. An interrupt is what the recording
// has here, or else cuts the turn short, which is told by done.
func (p *player) await(interrupts <-chan string, done <-chan struct{}) outcome {
	select {
	case p.interrupt = <-interrupts:
		if done != nil {
			return cutShort
		}
		return goOn
	case <-done:
		return goOn
	case <-p.server.ctx.Done():
		return stopped
	}
}

// awaitAnswer waits for the client's answer to a request of the recording. A
// turn that is to be interrupted later does not get one before.
func (p *player) awaitAnswer(answered <-chan struct{}, expected bool) outcome {
	if answered == nil || expected {
		return goOn
	}
	return p.await(p.interrupts, answered)
}

// pace looks for an interrupt, and makes a pause and those that faults ask for.
func (p *player) pace(wait time.Duration, expected bool) outcome {
	faults := p.server.opts.Faults
	if faults.StallAfter > 0 && p.sent >= faults.StallAfter {
		return p.await(p.interrupts, make(chan struct{}))
	}
	interrupts := p.interrupts
	if expected || p.interrupt != "" {
		interrupts = nil // it has its place, or has been there
	}
	pause := make(chan struct{})
	if wait <= 0 {
		close(pause)
	} else {
		timer := time.AfterFunc(wait, func() { close(pause) })
		defer timer.Stop()
	}
	select {
	case p.interrupt = <-interrupts:
		return cutShort // even if the pause is over as well
	default:
	}
	return p.await(interrupts, pause)
}

// misbehave does what faults ask for at the beginning of a turn.
func (p *player) misbehave() outcome {
	faults := p.server.opts.Faults
	if faults.Garbage {
		for _, line := range []string{"codex: not a message", `{"method":`, `[]`, "\x00\xff"} {
			p.server.send(line)
		}
	}
	if faults.HugeLine > 0 {
		p.server.send(`{"method":"future/blob","params":"` + strings.Repeat("x", faults.HugeLine) + `"}`)
	}
	if !faults.Unknown {
		return goOn
	}
	p.server.send(fmt.Sprintf(`{"method":"future/notification","params":{"threadId":%s}}`, jsontext.Quote(p.thread.id)))
	id, answered := p.server.request()
	p.server.send(fmt.Sprintf(`{"id":%d,"method":"future/request","params":{"threadId":%s}}`, id, jsontext.Quote(p.thread.id)))
	return p.await(p.interrupts, answered)
}
