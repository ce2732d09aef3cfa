package faults

import (
	"encoding/json"
	"errors"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// start starts a process, which the end of the test stops.
func start(l *e2e.Site, maxMemory int64) *appserver.Process {
	l.T.Helper()
	p := appserver.New(appserver.Config{
		Command: []string{e2e.CodexBinary, "app-server"}, Home: l.Home, MaxMemory: maxMemory,
		Client: codexrpc.ClientInfo{Name: "e2e", Version: "1"},
	}, nil)
	l.T.Cleanup(p.Stop)
	p.Start()
	return p
}

func begin(l *e2e.Site, p *appserver.Process, model, question string) (*codexrpc.Thread, error) {
	l.T.Helper()
	ctx := e2e.Context(l.T)
	body, err := json.Marshal(map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": question}}})
	must.OK(l.T, err)
	request, refusal := chat.Decode(body)
	if refusal != nil {
		l.T.Fatal(refusal)
	}
	plan, refusal := request.Plan(prompt.Options{})
	if refusal != nil {
		l.T.Fatal(refusal)
	}
	plan.Thread.Cwd = p.Dir()
	in, err := p.Instance(ctx)
	if err != nil {
		return nil, err
	}
	if catalogue := p.Model(model).Catalogue; catalogue != "" {
		plan.Thread.Config.Own["model_catalog_json"] = catalogue
	}
	thread, err := in.Conn().StartThread(ctx, plan.Thread)
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

func turn(l *e2e.Site, p *appserver.Process, model, prompt string) (string, error) {
	l.T.Helper()
	thread, err := begin(l, p, model, prompt)
	if err != nil {
		return "", err
	}
	return finish(l, thread)
}

func mustSay(l *e2e.Site, p *appserver.Process, text string) {
	l.T.Helper()
	if got, err := turn(l, p, "gpt-5", "verbatim:"+text); err != nil || got != text {
		l.T.Errorf("%d bytes said, %v; want %d", len(got), err, len(text))
	}
}

func await(l *e2e.Site, p *appserver.Process, what string, done func(appserver.Status) bool) appserver.Status {
	l.T.Helper()
	e2e.WaitFor(l.T, what, func() bool { return done(p.Status()) })
	return p.Status()
}

// TestReplacedUnderStreams: an answer is complete though memory or a restart replaces its codex.
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
			p := start(l, test.maxMemory)
			half, replaced := strings.Repeat("0123456789abcdef", 25), make(chan struct{})
			defer l.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
				return scriptedmodel.Script{Output: []scriptedmodel.Output{
					scriptedmodel.Say(half), scriptedmodel.Hold(replaced), scriptedmodel.Say(half),
				}}, request.UserText() == "both halves"
			})()
			thread, err := begin(l, p, "gpt-5", "both halves")
			must.OK(t, err)
			must.OK(t, test.order(p))
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

// TestMemoryIsRight: codex reports its memory like the system, and the status has its own share.
func TestMemoryIsRight(t *testing.T) {
	l := e2e.NewUnstarted(t)
	p := start(l, 0)
	for range 10 {
		mustSay(l, p, "ok")
	}
	in, err := p.Instance(e2e.Context(t))
	must.OK(t, err)
	d, err := in.Conn().Diagnostics(e2e.Context(t))
	must.OK(t, err)
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
	must.OK(t, err)
	return kilobytes << 10
}
