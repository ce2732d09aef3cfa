package appserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

// doubles are app-servers within this process, for a Process in virtual time.
type doubles struct {
	mu      sync.Mutex
	started []*double
	mute    map[string]bool // methods that those started from now on do not answer
	refuse  map[string]bool // methods that they refuse
}

// double is one of them.
type double struct {
	mute, refuse map[string]bool
	stdout       *io.PipeWriter
	threads      int      // started; of the goroutine that answers
	limits       []string // the next answers about the limits, as members of the JSON

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
	one := &double{mute: d.mute, refuse: d.refuse, stdout: stdout, calls: make(map[string]int)}
	d.started = append(d.started, one)
	one.end = func() {
		_ = stdin.Close()
		_ = stdout.Close()
		one.thaw()
	}
	return &Program{
		Stdin: toProgram, Stdout: fromProgram, Stderr: stderr, PID: len(d.started),
		Wait: func() string {
			one.serve(stdin)
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

func (d *double) serve(stdin io.Reader) {
	in := bufio.NewScanner(stdin)
	for in.Scan() {
		d.wait()
		call := gjson.ParseBytes(in.Bytes())
		method, id := call.Get("method").Str, call.Get("id").Raw
		d.mu.Lock()
		d.calls[method]++
		d.mu.Unlock()
		switch {
		case id == "" || d.mute[method]:
		case method == methodRateLimitsRead && len(d.limits) > 0:
			d.say(`{"id":%s,%s}`, id, d.limits[0])
			d.limits = d.limits[1:]
		case d.refuse[method]:
			d.say(`{"id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		default:
			d.say(`{"id":%s,"result":%s}`, id, d.result(method))
			if method == methodTurnInterrupt {
				d.say("%s", turnCompleted(call.Get("params.threadId").Str, call.Get("params.turnId").Str, "interrupted"))
			}
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		panic(err)
	}
	d.wait() // a frozen one does not notice the end either
}

func (d *double) result(method string) string {
	switch method {
	case methodThreadStart:
		d.threads++
		return fmt.Sprintf(`{"thread":{"id":"thr-%d"}}`, d.threads)
	case methodTurnStart:
		return fmt.Sprintf(`{"turn":{"id":"trn-%d"}}`, d.threads)
	case methodDiagnostics:
		return `{"process":{"id":1,"residentMemoryBytes":100}}`
	}
	return childResult(nil, method)
}

func (d *double) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.stdout, format+"\n", args...) // it may have been killed
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
