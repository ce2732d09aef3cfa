package replay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// player plays the app-servers of a recording. Each turn has one of its own, which can be closed without the others.
type player struct {
	script      *script
	transcripts *fakecodex.Transcripts
	login       loginstate.Login
	client      *client
	reads       int                // how often events were sent
	first       *appserver.Process // is asked for models; has no turns

	mu        sync.Mutex
	processes []*appserver.Process
	choices   map[string]int // by the ids of threads
	threads   int
	turns     map[int][]*liveTurn // by choice
}

// liveTurn is a turn that the gateway has started.
type liveTurn struct {
	thread, request string
	send            func(line string)
	die             context.CancelFunc
	process         *appserver.Process
	interrupted     bool
}

func newPlayer(s *script, transcripts *fakecodex.Transcripts) *player {
	p := &player{script: s, transcripts: transcripts, client: newClient(s.answer), choices: make(map[string]int), turns: make(map[int][]*liveTurn)}
	p.first = p.process()
	return p
}

// process starts an app-server.
func (p *player) process() *appserver.Process {
	var process *appserver.Process
	start := func() (*appserver.Program, error) { return p.program(&process) }
	process = appserver.New(appserver.Config{Start: start, Client: codexrpc.ClientInfo{Name: "replay"}, Models: p.script.windows}, nil)
	process.Start()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.processes = append(p.processes, process)
	return process
}

func (p *player) program(process **appserver.Process) (*appserver.Program, error) {
	stdin, stdout, stderr := newPipe(), newPipe(), newPipe()
	exited := make(chan struct{})
	ctx, die := context.WithCancel(context.Background())
	go func() {
		_ = fakecodex.Serve(ctx, stdin, stdout, fakecodex.Options{Transcripts: p.transcripts, Call: func(send func(string), method, id string, params gjson.Result) bool {
			return p.call(&liveTurn{request: id, send: send, die: die, process: *process}, method, params)
		}})
		die()
		for _, end := range []*pipe{stdin, stdout, stderr} {
			_ = end.Close()
		}
		close(exited)
	}()
	return &appserver.Program{
		Stdin: stdin, Stdout: stdout, Stderr: stderr, PID: 1,
		Wait: func() string { <-exited; return "exited" }, Terminate: die, Kill: die,
	}, nil
}

// call answers a call of the gateway, except turn/start, whose answer is an action of the script.
func (p *player) call(t *liveTurn, method string, params gjson.Result) bool {
	answer := func(result string) { t.send(`{"id":` + t.request + `,"result":` + result + `}`) }
	p.mu.Lock()
	defer p.mu.Unlock()
	failure, fails := p.script.failures[method]
	t.thread = params.Get("threadId").Str
	switch {
	case fails && failure != "":
		t.send(`{"id":` + t.request + `,"error":` + failure + `}`)
	case fails && p.script.code == "codex_exited":
		t.die()
	case fails && p.script.code == "codex_unresponsive":
		t.hang()
	case fails:
	case method == "thread/start":
		p.threads++
		answer(fmt.Sprintf(`{"thread":{"id":"replayed-%d"}}`, p.threads))
	case method == "turn/start":
		choice := p.choices[t.thread]
		p.turns[choice] = append(p.turns[choice], t)
	case method == "turn/interrupt":
		answer(`{}`)
		for _, running := range p.turns[p.choices[t.thread]] {
			running.interrupted = running.interrupted || running.thread == t.thread
		}
		t.send(`{"method":"turn/completed","params":{"threadId":` + wirejson.Quote(t.thread) + `,"turn":{"id":` + params.Get("turnId").Raw + `,"items":[],"status":"interrupted","error":null}}}`)
	case method == "turn/steer":
		answer(`{"turnId":` + params.Get("expectedTurnId").Raw + `}`)
	case method == "thread/inject_items", method == "thread/unsubscribe":
		answer(`{}`)
	default:
		return false
	}
	return true
}

// sent is told which choice sends a line before the app-server gets it.
func (p *player) sent(choice int, line []byte) {
	if thread := gjson.GetBytes(line, "params.threadId").Str; thread != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.choices[thread] = choice
	}
}

// play does what the script says, until it is done or ended is closed. It returns what differs, if anything.
func (p *player) play(arrived time.Time, ended <-chan struct{}) string {
	rest := p.script.actions
	for len(rest) > 0 && rest[0].due != never {
		n := 1
		for n < len(rest) && rest[n].order == rest[0].order && rest[n].line != "" && rest[0].line != "" {
			n++
		}
		select {
		case <-time.After(time.Until(arrived.Add(rest[0].due + 1))): // after what the gateway does at that time
		case <-ended:
			return ""
		}
		synctest.Wait()
		p.mu.Lock()
		of := rest[0].turn
		all := p.turns[of.choice]
		p.mu.Unlock()
		if len(all) <= of.index {
			select {
			case <-ended: // too early, which the answer shows
				return ""
			default:
			}
			return fmt.Sprintf("after %s the gateway has not started turn %d of choice %d", rest[0].due, of.index, of.choice)
		}
		all[of.index].do(rest[:n])
		if rest[0].read {
			p.reads++
		}
		rest = rest[n:]
		synctest.Wait()
		p.client.eventsArrived()
		synctest.Wait()
	}
	return ""
}

// do does actions that are due at the same time.
func (t *liveTurn) do(actions []action) {
	var lines []string
	for i := range actions {
		a := &actions[i]
		if a.hung {
			t.hang()
			return
		}
		if a.line == "" && !a.answer {
			t.die()
			return
		}
		if !t.interrupted {
			lines = append(lines, a.live(t.thread, t.request))
		}
	}
	if len(lines) > 0 {
		t.send(strings.Join(lines, "\n"))
	}
}

// hang ends the connection as if the app-server had not answered.
func (t *liveTurn) hang() {
	if in := t.process.Ready(); in != nil {
		in.Conn().Fail(fmt.Errorf("%w: it was silent for 12s", codexrpc.ErrUnresponsive))
	}
}

// The player is the upstream of the gateway, and its lease.

func (p *player) Lease() (conversation.Lease, error) { return p, nil }

func (p *player) Pick(_ string, avoid ...*appserver.Process) (conversation.Member, func()) {
	return conversation.Member{Process: p.process(), Login: &p.login}, func() {}
}

func (p *player) Peek(string) (conversation.Member, func()) { return p.Members()[0], func() {} }

func (p *player) Resume(string, func(conversation.Member) bool) (conversation.Member, func(), bool) {
	return conversation.Member{}, nil, false
}

func (p *player) Members() []conversation.Member {
	return []conversation.Member{{Process: p.first, Login: &p.login}}
}

func (p *player) Len() int { return 1 }

func (p *player) Logins() int { return 1 }

func (p *player) Release() {}

// stop stops all app-servers.
func (p *player) stop() {
	p.mu.Lock()
	all := slices.Clone(p.processes)
	p.mu.Unlock()
	for _, process := range all {
		process.Stop()
	}
}

// pipe passes bytes on without a limit, so that the gateway gets all lines that were sent at once.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	closed  bool
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, io.ErrClosedPipe
	}
	p.buf = append(p.buf, b...)
	p.changed.Broadcast()
	return len(b), nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 && !p.closed {
		p.changed.Wait()
	}
	if len(p.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	return n, nil
}

func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
	return nil
}
