package appserver

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// doubles are app-servers within this process, for a Process in virtual time.
type doubles struct {
	mu      sync.Mutex
	started []*double
	is      map[string]bool // the words of those that are started from now on
}

// double is one of them, or the whole of a child, see runChild.
type double struct {
	is      map[string]bool // words that say what it does
	stdout  io.WriteCloser
	threads int      // started; of the goroutine that answers
	limits  []string // the next answers about the limits, as members of the JSON

	end func() // as it ends when it is killed

	mu     sync.Mutex
	frozen chan struct{} // closed at the thaw; nil: it is not frozen
	calls  map[string]int
	killed bool
}

// newDoubles makes a process of doubles that is not started, in a synctest bubble.
func newDoubles(t *testing.T) (*Process, *doubles) {
	d := &doubles{}
	p := New(Config{Start: d.start, stopTimeout: time.Second}, nil)
	t.Cleanup(p.Stop)
	return p, d
}

func (d *doubles) last() *double {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.started[len(d.started)-1]
}

func (d *doubles) start() (*Program, error) {
	stdin, toProgram := io.Pipe()
	fromProgram, stdout := io.Pipe()
	stderr, complaints := io.Pipe()
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &double{is: d.is, stdout: stdout, calls: make(map[string]int)}
	d.started = append(d.started, one)
	one.end = func() {
		_ = stdin.Close()
		_ = stdout.Close()
		one.thaw()
	}
	return &Program{
		Stdin: toProgram, Stdout: fromProgram, Stderr: stderr, PID: len(d.started),
		Wait: func() string {
			if err := one.serve(stdin); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				panic(err)
			}
			one.end()
			_ = complaints.Close()
			return "ended"
		},
		Terminate: func() {
			if !one.isFrozen() {
				one.end()
			}
		},
		Kill: one.kill,
	}, nil
}

func (d *double) completed(n int) {
	d.say("%s", turnCompleted(fmt.Sprint("thr-", n), fmt.Sprint("trn-", n), "completed"))
}

func (d *double) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = make(chan struct{})
}

// thaw continues it.
func (d *double) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen != nil {
		close(d.frozen)
		d.frozen = nil
	}
}

func (d *double) kill() {
	d.mu.Lock()
	d.killed = true
	d.mu.Unlock()
	d.end()
}

func (d *double) isFrozen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.frozen != nil
}

func (d *double) wasKilled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.killed
}

func (d *double) called(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[method]
}

// wait waits while it is frozen.
func (d *double) wait() {
	d.mu.Lock()
	frozen := d.frozen
	d.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// inBubble runs a test in virtual time with a ready process of doubles.
func inBubble(t *testing.T, test func(t *testing.T, p *Process, d *doubles)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, d := newDoubles(t)
		p.Start()
		conn(t, p)
		test(t, p, d)
	})
}
