package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// life is the planned behaviour of one instance of an app-server.
type life struct {
	Unstartable bool // it fails to start
	Faults      fakecodex.Faults
	KillAfter   time.Duration // 0 for never
	HangAfter   time.Duration // 0 for never
	HangFor     time.Duration // forever means until it is killed
	Partial     int           // bytes in transit that survive its death
}

// String lists the faults.
func (l *life) String() string {
	var b strings.Builder
	for _, v := range []reflect.Value{reflect.ValueOf(*l), reflect.ValueOf(l.Faults)} {
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && f.Kind() != reflect.Struct {
				fmt.Fprintf(&b, " %s:%v", v.Type().Field(i).Name, f)
			}
		}
	}
	return b.String()
}

// sound reports whether an instance never fails.
func (l *life) sound() bool {
	f := &l.Faults
	return !l.Unstartable && l.KillAfter == 0 && l.HangAfter == 0 && len(f.Mute) == 0 && f.DieAt == "" && f.DieAfter == 0
}

// appServer is an instance. It ends with its process, its input, or by plan.
type appServer struct {
	number, server        int // server is its place in the pool
	run                   *run
	life                  life
	stdin, stdout, stderr *pipe
	ctx                   context.Context
	die                   context.CancelCauseFunc
	exited                chan struct{}

	mu         sync.Mutex
	hung       bool
	terminated bool            // asked to end while it hangs
	state      string          // exit status
	opened     map[string]bool // open threads
	running    map[string]bool // threads with a running turn
	decoding   map[string]bool // threads whose turn decodes an image, see decode
	asked      map[string]call // unanswered calls by id
	random     *rand.Rand      // for the latency
}

type call struct{ method, thread string }

var errKilled = errors.New("killed")

// start starts the next instance.
func (r *run) start(server int) (*appserver.Program, error) {
	s := r.nextInstance()
	s.server = server
	r.trace.add("app-server %d starts%s", s.number, &s.life)
	if s.life.Unstartable {
		return nil, errors.New("the plan has no start here")
	}
	go s.serve()
	var timers []*time.Timer
	if s.life.KillAfter > 0 {
		timers = append(timers, time.AfterFunc(s.life.KillAfter, s.kill))
	}
	if s.life.HangAfter > 0 {
		timers = append(timers, time.AfterFunc(s.life.HangAfter, func() { s.hang(true) }))
		if s.life.HangFor < forever {
			timers = append(timers, time.AfterFunc(s.life.HangAfter+s.life.HangFor, func() { s.hang(false) }))
		}
	}
	return &appserver.Program{
		Stdin: writer{s.stdin}, Stdout: reader{s.stdout}, Stderr: reader{s.stderr}, PID: 1000 + s.number,
		Wait: func() string {
			<-s.exited
			for _, t := range timers {
				t.Stop()
			}
			return s.state
		},
		Terminate: s.terminate, Kill: s.kill,
	}, nil
}

// serve runs the app-server until it ends.
func (s *appServer) serve() {
	s.life.Faults.Linger = s.run.plan.Linger
	err := fakecodex.Serve(s.ctx, reader{s.stdin}, writer{s.stdout}, fakecodex.Options{
		Transcripts: s.run.recordings, Faults: s.life.Faults,
		Turn: s.turn, Heard: s.heard, Told: s.told,
	})
	s.mu.Lock()
	s.state = fmt.Sprintf("exited: %v", err)
	s.mu.Unlock()
	s.run.trace.add("app-server %d has %s", s.number, s.state)
	s.stdin.cut(io.ErrClosedPipe, 0)
	if err == nil {
		s.stdout.end(io.EOF)
	} else {
		s.stdout.cut(io.EOF, s.life.Partial)
	}
	s.stderr.end(io.EOF)
	close(s.exited)
}

// kill ends it like SIGKILL.
func (s *appServer) kill() { s.end(errKilled) }

// end ends it with an error, even if it hangs.
func (s *appServer) end(err error) {
	s.die(err)
	s.stdin.cut(io.ErrClosedPipe, 0)
	s.stdout.hold(false, false)
	s.stdout.cut(io.EOF, s.life.Partial)
}

// terminate asks it to end, as soon as it does not hang.
func (s *appServer) terminate() {
	s.mu.Lock()
	hung := s.hung
	s.terminated = s.terminated || hung
	s.mu.Unlock()
	if !hung {
		s.end(errors.New("terminated"))
	}
}

// hang stops it like SIGSTOP, or continues it.
func (s *appServer) hang(on bool) {
	s.run.trace.add("app-server %d hangs: %t", s.number, on)
	s.mu.Lock()
	s.hung = on
	terminated := s.terminated && !on
	s.mu.Unlock()
	if terminated {
		s.end(errors.New("terminated"))
		return
	}
	s.stdin.hold(on, false)
	s.stdout.hold(false, on)
}

// hangs reports whether it hangs.
func (s *appServer) hangs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung
}

// dead reports whether it has ended.
func (s *appServer) dead() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// turn returns the messages of a turn.
func (s *appServer) turn(asked fakecodex.Asked) []fakecodex.Step {
	if strings.Contains(asked.Params, leaverText) {
		return s.decode(asked)
	}
	if s.spent(asked) {
		return refuseSpent(asked)
	}
	return s.run.perform(s.number, asked)
}

// heard records the client's calls and delays each.
func (s *appServer) heard(line []byte) {
	if most := s.run.plan.Latency; most > 0 {
		time.Sleep(time.Duration(s.random.Int64N(int64(most))))
	}
	m := gjson.ParseBytes(line)
	switch method := m.Get("method").Str; method {
	case "thread/start", "thread/unsubscribe":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[m.Get("id").Raw] = call{method, m.Get("params.threadId").Str}
	}
}

// told records open threads and running turns.
func (s *appServer) told(line string) {
	if len(line) > 1<<14 || !gjson.Valid(line) {
		return
	}
	m := gjson.Parse(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method := m.Get("method").Str; method {
	case "":
		asked := s.asked[m.Get("id").Raw]
		delete(s.asked, m.Get("id").Raw)
		switch {
		case !m.Get("result").Exists():
		case asked.method == "thread/start":
			s.opened[m.Get("result.thread.id").Str] = true
		case asked.method == "thread/unsubscribe":
			delete(s.opened, asked.thread)
		}
	case "turn/started":
		s.running[m.Get("params.threadId").Str] = true
	case "turn/completed":
		delete(s.running, m.Get("params.threadId").Str)
		s.decoded(m.Get("params.threadId").Str)
	}
}

// left counts the open threads and running turns of an instance that works.
func (s *appServer) left() (threads, turns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened), len(s.running)
}
