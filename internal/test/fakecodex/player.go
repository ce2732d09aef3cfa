package fakecodex

import (
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// player plays the recording of one turn.
type player struct {
	server *server
	thread *thread
	turn   *turn
	id     string // id of the live turn
	start  string // id of the client's turn/start

	interrupts chan string         // id of the client's turn/interrupt; capacity 1
	interrupt  string              // the id received from interrupts
	requests   map[string]*request // by their recorded ids
	calls      []*request          // of tools
	told       map[string]bool     // items that are in the history
	live       *strings.Replacer   // replaces recorded ids by live ones
	sent       int                 // number of messages
}

type outcome int

const (
	goOn     outcome = iota
	cutShort         // there was an interrupt that the recording does not have
	stopped          // the server has ended
)

func (p *player) play() {
	defer p.leave()
	p.requests, p.told = make(map[string]*request), make(map[string]bool)
	p.live = strings.NewReplacer(wirejson.Quote(p.turn.thread), wirejson.Quote(p.thread.id), wirejson.Quote(p.turn.id), wirejson.Quote(p.id))
	result := goOn
	for i := 0; i < len(p.turn.steps) && result == goOn; i++ {
		if p.turn.steps[i].kind == sendEnd {
			p.leave()
		}
		result = p.step(p.turn.steps[i], expects(p.turn.steps[i:]))
	}
	if result == cutShort {
		p.extend(aborted+separator, "")
		p.server.answer(p.interrupt, `{}`)
		select {
		case <-time.After(p.server.opts.Faults.Linger):
		case <-p.server.ctx.Done():
		}
		p.leave()
		p.server.send(completed(p.thread.id, p.id, "interrupted", "null"))
	}
}

// leave frees the thread for its next turn, before the client gets the end of this one.
func (p *player) leave() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.thread.player == p {
		p.thread.player = nil
		p.refuseLate()
	}
}

// refuseLate refuses an interrupt that came after the last check.
func (p *player) refuseLate() {
	select {
	case id := <-p.interrupts:
		p.server.refuse(id, codeInvalid, "no active turn to interrupt")
	default:
	}
}

// step plays one message. If expected, the recording still has an interrupt, and
// one that comes early waits for its place.
func (p *player) step(s step, expected bool) outcome {
	switch s.kind {
	case awaitInterrupt:
		return p.await(p.interrupts, nil)
	case awaitAnswer:
		return p.awaitAnswer(p.requests[s.id], expected)
	case resume:
		return p.resume()
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
		id, made := p.server.request()
		p.requests[s.id] = made
		if strings.Contains(s.message, `"item/tool/call"`) {
			p.calls = append(p.calls, made)
		}
		p.server.send(p.rewrite(s, strconv.Itoa(id)))
	default:
		if p.server.opts.Turn != nil {
			p.record(s.message)
		}
		p.server.send(p.live.Replace(s.message))
	}
	p.sent++
	return goOn
}

// rewrite replaces the ids in a message that has an id of its own.
func (p *player) rewrite(s step, id string) string {
	return strings.Replace(p.live.Replace(s.message), `"id":`+s.id, `"id":`+id, 1)
}

// await waits for an interrupt or for done. An interrupt cuts the turn short unless
// done is nil, which means that the recording has one here.
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

// awaitAnswer waits for the answer to a request, unless the recording has an interrupt later on.
func (p *player) awaitAnswer(asked *request, expected bool) outcome {
	if asked == nil || expected {
		return goOn
	}
	return p.await(p.interrupts, asked.answered)
}

// pace checks for an interrupt, waits, and stalls if a fault says so.
func (p *player) pace(wait time.Duration, expected bool) outcome {
	faults := p.server.opts.Faults
	if faults.StallAfter > 0 && p.sent >= faults.StallAfter {
		return p.await(p.interrupts, make(chan struct{}))
	}
	interrupts := p.interrupts
	if expected || p.interrupt != "" {
		interrupts = nil // the recording has one later, or had it already
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
