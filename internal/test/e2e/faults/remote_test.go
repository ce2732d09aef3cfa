package faults

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// local starts a local process.
func local(l *e2e.Site, maxMemory int64) *appserver.Process {
	return l.Process(appserver.Config{Command: []string{e2e.CodexBinary, "app-server"}, Home: l.Home, MaxMemory: maxMemory})
}

// begin starts the turn of a chat request.
func begin(l *e2e.Site, p *appserver.Process, model, question string) (*codexrpc.Thread, error) {
	l.T.Helper()
	ctx := e2e.Context(l.T)
	body, err := json.Marshal(map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": question}}})
	if err != nil {
		l.T.Fatal(err)
	}
	request, refusal := chat.Decode(body)
	if refusal != nil {
		l.T.Fatal(refusal)
	}
	plan, refusal := request.Plan(prompt.Options{})
	if refusal != nil {
		l.T.Fatal(refusal)
	}
	plan.Thread.Cwd = p.Dir()
	conn, err := p.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if catalogue := p.Model(model).Catalogue; catalogue != "" {
		plan.Thread.Config.Own["model_catalog_json"] = catalogue
	}
	thread, err := conn.StartThread(ctx, plan.Thread)
	if err != nil {
		return nil, err
	}
	return thread, thread.StartTurn(ctx, plan.Turn)
}

// finish reads a turn until it ends, and closes its thread.
func finish(l *e2e.Site, thread *codexrpc.Thread) (text string, err error) {
	l.T.Helper()
	released := make(chan struct{})
	defer func() {
		thread.Close(func() { close(released) })
		e2e.Receive(l.T, "the end of the thread", released)
	}()
	end := time.After(e2e.Deadline)
	for {
		events, err := thread.Recv()
		if err != nil {
			return text, err
		}
		for _, e := range events {
			switch e.Kind {
			case codexrpc.EventTextDelta:
				text += e.Text
			case codexrpc.EventTurnCompleted:
				if e.Err != nil {
					return text, e.Err
				}
				return text, nil
			}
		}
		select {
		case <-thread.Ready():
		case <-end:
			return text, errors.New("the turn did not end")
		}
	}
}

// turn runs a turn.
func turn(l *e2e.Site, p *appserver.Process, model, prompt string) (string, error) {
	l.T.Helper()
	thread, err := begin(l, p, model, prompt)
	if err != nil {
		return "", err
	}
	return finish(l, thread)
}

// mustSay runs a turn with a text.
func mustSay(l *e2e.Site, p *appserver.Process, text string) {
	l.T.Helper()
	if got, err := turn(l, p, "gpt-5", "verbatim:"+text); err != nil || got != text {
		l.T.Errorf("%d bytes said, %v; want %d", len(got), err, len(text))
	}
}

// await waits for a status.
func await(l *e2e.Site, p *appserver.Process, what string, done func(appserver.Status) bool) appserver.Status {
	l.T.Helper()
	e2e.WaitFor(l.T, what, func() bool { return done(p.Status()) })
	return p.Status()
}

// TestRemoteCodex checks that a remote codex serves turns over each transport, and unloads
// their threads.
func TestRemoteCodex(t *testing.T) {
	for name, listen := range map[string]string{
		"ws":   "ws://127.0.0.1:0",
		"unix": "unix://" + filepath.Join(t.TempDir(), "codex.sock"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := e2e.NewUnstarted(t)
			address, _ := l.Listen(listen)
			p := l.Process(appserver.Config{Connect: address})
			mustSay(l, p, "short")
			mustSay(l, p, strings.Repeat("0123456789abcdef", 10_000))
			status := p.Status()
			if !status.Remote || status.Address != address || status.PID != 0 || status.Version == "" || status.Threads != 0 {
				t.Errorf("it is %+v", status)
			}
			conn, err := p.Conn(e2e.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			// Longer than codex accepts in one frame. The next call works.
			thread, err := conn.StartThread(e2e.Context(t), codexrpc.ThreadStartParams{Ephemeral: true, Config: codexrpc.Config{Own: map[string]any{"thread_unload_delay_secs": 0}}})
			if err != nil {
				t.Fatal(err)
			}
			item := `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x", 17<<20) + `"}]}`
			if err := thread.InjectItems(e2e.Context(t), []json.RawMessage{json.RawMessage(item)}); err != nil {
				t.Error(err)
			}
			thread.Close(nil)
			e2e.WaitFor(t, "its threads to be unloaded", func() bool {
				d, err := conn.Diagnostics(e2e.Context(t))
				return err == nil && d.LiveThreads == 0
			})
		})
	}
}

// TestRemoteCodexDisconnected checks that the next connection ends the turns of a lost
// one, which a remote codex continues.
func TestRemoteCodexDisconnected(t *testing.T) {
	l := e2e.NewUnstarted(t)
	address, _ := l.Listen("ws://127.0.0.1:0")
	wire := newWire(t, strings.TrimPrefix(address, "ws://"))
	p := l.Process(appserver.Config{Connect: "ws://" + wire.addr})
	var threads []*codexrpc.Thread
	for range 3 {
		thread, err := begin(l, p, "gpt-5", "hang")
		if err != nil {
			t.Fatal(err)
		}
		threads = append(threads, thread)
	}
	if _, err := l.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == 3 }); err != nil {
		t.Fatal(err)
	}
	wire.cut()
	for _, thread := range threads {
		if _, err := finish(l, thread); !errors.Is(err, codexrpc.ErrClosed) {
			t.Errorf("the turn ended with %v", err)
		}
	}
	if _, err := l.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("turns go on: ", err)
	}
	mustSay(l, p, "connected again")
}

// wire forwards connections to an address until it is cut.
type wire struct {
	addr string

	mu      sync.Mutex
	conns   []net.Conn
	dials   int
	running int // number of pairs
}

// dialled returns the number of connections so far.
func (w *wire) dialled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// open returns the number of open connections.
func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		running.Wait()
	})
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, near, far)
			w.dials, w.running = w.dials+1, w.running+1
			w.mu.Unlock()
			var both sync.WaitGroup
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				both.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
			running.Go(func() {
				both.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				w.running--
			})
		}
	})
	return w
}

// cut closes all open connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// TestRemoteCatalogue checks that a remote codex with the catalogue of docs/remote.md
// offers no tools of its own.
func TestRemoteCatalogue(t *testing.T) {
	l := e2e.NewUnstarted(t)
	path := l.Catalogue()
	changed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var catalogue struct {
		Models []struct {
			Slug string `json:"slug"`
		} `json:"models"`
	}
	if err := json.Unmarshal(changed, &catalogue); err != nil || len(catalogue.Models) == 0 {
		t.Fatalf("%d models, %v", len(catalogue.Models), err)
	}
	offered := func(args ...string) (most int) {
		address, stop := l.Listen("ws://127.0.0.1:0", args...)
		defer stop()
		p := l.Process(appserver.Config{Connect: address})
		defer p.Stop()
		for _, m := range catalogue.Models {
			if _, err := turn(l, p, m.Slug, "say:ok"); err != nil {
				t.Fatalf("%s: %v", m.Slug, err)
			}
			last, _ := l.Model.Last()
			most = max(most, len(last.Tools))
		}
		return most
	}
	if n := offered("-c", "model_catalog_json="+path); n != 0 {
		t.Errorf("a model is offered %d tools", n)
	}
	if offered() == 0 {
		t.Error("without the catalogue there are none, either: it is not needed any more")
	}
}

// TestReplacedUnderStreams checks that an answer is complete although its codex is
// replaced, because of its memory or by a restart.
func TestReplacedUnderStreams(t *testing.T) {
	for name, test := range map[string]struct {
		maxMemory int64
		order     func(*appserver.Process) error
	}{
		"memory":  {maxMemory: 1, order: func(*appserver.Process) error { return nil }}, // it is always above
		"restart": {order: (*appserver.Process).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := e2e.NewUnstarted(t)
			p := local(l, test.maxMemory)
			half, replaced := strings.Repeat("0123456789abcdef", 25), make(chan struct{})
			defer l.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
				return scriptedmodel.Script{Output: []scriptedmodel.Output{
					scriptedmodel.Say(half), scriptedmodel.Hold(replaced), scriptedmodel.Say(half),
				}}, request.UserText() == "both halves"
			})()
			thread, err := begin(l, p, "gpt-5", "both halves")
			if err != nil {
				t.Fatal(err)
			}
			if err := test.order(p); err != nil {
				t.Fatal(err)
			}
			await(l, p, "the replacement", func(s appserver.Status) bool { return s.Replacements == 1 })
			mustSay(l, p, "by the new one")
			close(replaced)
			if got, err := finish(l, thread); err != nil || got != half+half {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			s := await(l, p, "the old one to end", func(s appserver.Status) bool { return s.Draining == 0 })
			if s.Replacements != 1 || s.Restarts != 0 || s.State != appserver.StateReady {
				t.Errorf("it is %+v", s)
			}
		})
	}
}

// TestMemoryIsRight checks that codex reports its memory like the system, and that the status
// has what is its own.
func TestMemoryIsRight(t *testing.T) {
	l := e2e.NewUnstarted(t)
	p := local(l, 0)
	for range 10 {
		mustSay(l, p, "ok")
	}
	conn, err := p.Conn(e2e.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := conn.Diagnostics(e2e.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	resident := residentMemory(t, d.PID)
	if resident < d.Memory/2 || resident > 2*d.Memory {
		t.Errorf("codex says %d, the system %d", d.Memory, resident)
	}
	own := await(l, p, "the status to tell it", func(s appserver.Status) bool { return s.Memory > 0 }).Memory
	t.Logf("of %d bytes that are resident, %d are codex's own", d.Memory, own)
	// On Linux the pages of its program do not count, which are most of them.
	if least, most := d.Memory/32, 2*d.Memory; own < least || own > most || runtime.GOOS == "linux" && own > d.Memory/2 {
		t.Errorf("the status tells %d", own)
	}
}

// residentMemory returns the resident memory of a process, in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	out, err := exec.CommandContext(e2e.Context(t), "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		needs.Missing(t, "ps tells the memory: install it (procps) to run this test")
	}
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
