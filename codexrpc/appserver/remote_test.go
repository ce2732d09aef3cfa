package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// elsewhere is a remote app-server.
type elsewhere struct {
	address string
	token   string
	memory  atomic.Int64
	mute    atomic.Value // the method that is not answered

	mu          sync.Mutex
	open        []*websocket.Conn // all that have ever been
	cwds        []string          // of the threads
	interrupted []string          // threads
	threads     int
}

func newElsewhere(t *testing.T, token string) *elsewhere {
	t.Helper()
	e := &elsewhere{token: token}
	e.mute.Store("")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "invalid websocket bearer token", http.StatusUnauthorized)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting: %v", err)
			return
		}
		defer ws.CloseNow()
		e.serve(ws)
	}))
	t.Cleanup(server.Close)
	e.address = "ws" + strings.TrimPrefix(server.URL, "http")
	return e
}

// serve answers what a start and a thread need.
func (e *elsewhere) serve(ws *websocket.Conn) {
	e.mu.Lock()
	e.open = append(e.open, ws)
	e.mu.Unlock()
	for {
		_, message, err := ws.Read(context.Background())
		if err != nil {
			return
		}
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Cwd      *string `json:"cwd"`
				ThreadID string  `json:"threadId"`
				TurnID   string  `json:"turnId"`
			} `json:"params"`
		}
		if json.Unmarshal(message, &call) != nil || call.ID == nil || call.Method == e.mute.Load() {
			continue
		}
		answer := fmt.Sprintf(`{"id":%s,"result":%s}`, call.ID, e.result(call.Method, call.Params.Cwd))
		if call.Method == methodTurnInterrupt {
			e.mu.Lock()
			e.interrupted = append(e.interrupted, call.Params.ThreadID)
			e.mu.Unlock()
		}
		if ws.Write(context.Background(), websocket.MessageText, []byte(answer)) != nil {
			return
		}
		if call.Method == methodTurnInterrupt {
			_ = ws.Write(context.Background(), websocket.MessageText, []byte(turnCompleted(call.Params.ThreadID, call.Params.TurnID, "interrupted")))
		}
	}
}

func (e *elsewhere) result(method string, cwd *string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch method {
	case methodInitialize:
		return `{"userAgent":"test/0.169.0 (test)","codexHome":"/over/there"}`
	case methodThreadStart:
		e.threads++
		if cwd == nil {
			e.cwds = append(e.cwds, "none")
		} else {
			e.cwds = append(e.cwds, *cwd)
		}
		return fmt.Sprintf(`{"thread":{"id":"thr-%d"}}`, e.threads)
	case methodTurnStart:
		return `{"turn":{"id":"trn-1"}}`
	case methodDiagnostics:
		return fmt.Sprintf(`{"process":{"id":1,"residentMemoryBytes":%d},"gauges":[]}`, e.memory.Load())
	}
	return `{}`
}

// drop breaks a connection.
func (e *elsewhere) drop(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.open[n].CloseNow()
}

// complete ends a turn of a connection.
func (e *elsewhere) complete(n int, thread *codexrpc.Thread) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.open[n].Write(context.Background(), websocket.MessageText, []byte(turnCompleted(thread.ID(), "trn-1", "completed")))
}

// connect makes a process that connects to it.
func (e *elsewhere) connect(t *testing.T, change func(*Config)) (*Process, *logBook) {
	t.Helper()
	return newReplaced(t, "", func(cfg *Config) {
		cfg.Command, cfg.Env = nil, nil
		cfg.Connect, cfg.Token = e.address, e.token
		if change != nil {
			change(cfg)
		}
	})
}

func TestRemoteProcess(t *testing.T) {
	e := newElsewhere(t, "secret")
	p, _ := e.connect(t, nil)
	p.Start()
	c := conn(t, p)
	s := p.Status()
	if !s.Remote || s.Address != e.address || s.PID != 0 || s.Version != "0.169.0" || s.State != StateReady {
		t.Errorf("it is %+v", s)
	}
	if p.Dir() != "" || p.Model("gpt-5").Catalogue != "" || p.files.private != nil {
		t.Errorf("it has files here: %q %+v", p.Dir(), p.files.private)
	}
	closed(open(t, c))
	if e.cwds[0] != "none" {
		t.Errorf("a thread was given the working directory %q", e.cwds[0])
	}
	p.Stop()
	if !errors.Is(c.Err(), codexrpc.ErrClosed) {
		t.Errorf("its connection ended with %v", c.Err())
	}
}

// TestRemoteConnectionBreaks checks that the turns of a broken connection fail and
// that it is made again.
func TestRemoteConnectionBreaks(t *testing.T) {
	e := newElsewhere(t, "")
	p, _ := e.connect(t, nil)
	p.Start()
	thread := open(t, conn(t, p))
	e.drop(0)
	if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrClosed) || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("the turn ended with %v", err)
	}
	awaitRestarts(t, p, 1)
	// Over there the turn goes on, until the next connection interrupts it.
	e.awaitInterrupted(t, thread.ID())
	open(t, conn(t, p))
}

// TestRemoteHangs checks that the connection to an app-server that hangs is ended and
// made again, and that the new one interrupts the turns of the old one.
func TestRemoteHangs(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, "")
	p, book := e.connect(t, nil)
	p.times.heartbeat = codexrpc.Heartbeat{MaxMissed: maxMissed, Every: time.Millisecond, Wait: 100 * time.Millisecond}
	p.Start()
	thread := open(t, conn(t, p))
	e.mute.Store(methodDiagnostics)
	if err := takeToEnd(t, thread); !errors.Is(err, codexrpc.ErrUnresponsive) {
		t.Errorf("the turn ended with %v", err)
	}
	e.mute.Store("")
	book.await(t, "the codex app-server does not answer")
	e.awaitInterrupted(t, thread.ID())
}

// awaitInterrupted waits until a thread's turn was interrupted.
func (e *elsewhere) awaitInterrupted(t *testing.T, id string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		found := slices.Contains(e.interrupted, id)
		e.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(end) {
			t.Fatal("its turn was never interrupted")
		}
	}
}

// TestRemoteTurnsEnd checks that turns are interrupted when their connection is
// closed, or breaks while it drains.
func TestRemoteTurnsEnd(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, "")
	p, _ := e.connect(t, nil)
	p.Start()
	one, two := open(t, conn(t, p)), open(t, conn(t, p))
	e.complete(0, two)
	for events := []codexrpc.Event(nil); len(events) == 0; events, _ = two.Recv() {
		<-two.Ready()
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitReplacements(t, p, 1)
	e.drop(0)
	e.awaitInterrupted(t, one.ID())
	three := open(t, conn(t, p))
	p.Stop()
	e.awaitInterrupted(t, three.ID())
	if slices.Contains(e.interrupted, two.ID()) {
		t.Error("a turn that had ended was interrupted")
	}
}

// TestRemoteFails checks that each failure to connect has a reason and a remedy.
func TestRemoteFails(t *testing.T) {
	e := newElsewhere(t, "secret")
	for name, test := range map[string]struct {
		change func(*Config)
		mute   string
		want   string
		remedy string
	}{
		"wrong token": {func(cfg *Config) { cfg.Token = "bad" }, "", "not the one it was started with", "refuses the connection"},
		"no token":    {func(cfg *Config) { cfg.Token = "" }, "", "wants a token", "refuses the connection"},
		"not there":   {func(cfg *Config) { cfg.Connect = "unix//nowhere/at/all.sock" }, "", "nobody listens there", "cannot be reached"},
		"no address":  {func(cfg *Config) { cfg.Connect = "http://user:hidden@host" }, "", "must be ws://", "/codex/status"},
		"says nothing": {func(cfg *Config) { cfg.StartTimeout = 50 * time.Millisecond },
			methodInitialize, "start timeout of 50ms", "not answered in time"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			e.mute.Store(test.mute)
			p, _ := e.connect(t, test.change)
			p.backoff.first, p.backoff.longest = time.Hour, time.Hour
			p.Start()
			s := awaitState(t, p, StateBackoff)
			if !strings.Contains(s.Reason, test.want) || strings.Contains(s.Reason+s.Address, "hidden") {
				t.Errorf("the reason is %q, at %q", s.Reason, s.Address)
			}
			checkRemedy(t, p, test.remedy)
		})
	}
}

// TestRemoteRestart checks that Restart connects again while the old connection
// drains.
func TestRemoteRestart(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, "")
	p, _ := e.connect(t, nil)
	p.Start()
	c := conn(t, p)
	thread := open(t, c)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitReplacements(t, p, 1)
	if conn(t, p) == c || c.Err() != nil {
		t.Errorf("the old connection: %v", c.Err())
	}
	closed(thread)
	awaitDrained(t, p)
	if c.Err() == nil {
		t.Error("the old connection is open")
	}
}

// TestRemoteMemory checks that the memory of a remote app-server is reported.
func TestRemoteMemory(t *testing.T) {
	e := newElsewhere(t, "")
	e.memory.Store(2000)
	p, _ := e.connect(t, nil)
	p.Start()
	await(t, p, "measured", func(s Status) bool { return s.Memory == 2000 })
}

// TestStopDuringADial checks that Stop does not wait for a start that is under way.
func TestStopDuringADial(t *testing.T) {
	e := newElsewhere(t, "")
	e.mute.Store(methodInitialize)
	p, _ := e.connect(t, func(cfg *Config) { cfg.StartTimeout = 10 * patience })
	p.Start()
	begin := time.Now()
	p.Stop()
	if took := time.Since(begin); took > patience {
		t.Errorf("stopping took %s", took)
	}
}
