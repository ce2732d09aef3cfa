package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// commandEnv makes the test binary run the command.
const commandEnv = "FAKECODEX_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what must happen in the end, on a machine however busy.
const patience = time.Minute

var transcripts = filepath.Join("..", "..", "..", "..", "testdata", "transcripts")

// start runs the command under the supervision of the real client.
func start(t *testing.T, flags ...string) *appserver.Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(transcripts)
	if err != nil {
		t.Fatal(err)
	}
	p := appserver.New(appserver.Config{
		Command:      append(append([]string{program, "-transcripts", dir}, flags...), "app-server", "--ignored"),
		Env:          map[string]string{commandEnv: "1", "GORACE": "atexit_sleep_ms=0"},
		StartTimeout: patience,
		StopTimeout:  time.Second,
		Client:       codexrpc.ClientInfo{Name: "test"},
	}, nil)
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// runTurn runs one turn to its end.
func runTurn(t *testing.T, c *codexrpc.Conn, prompt string) (text, status string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	thread, err := c.StartThread(ctx, codexrpc.ThreadStartParams{})
	if err != nil {
		return "", "", err
	}
	defer thread.Close(nil)
	err = thread.StartTurn(ctx, codexrpc.TurnStartParams{Input: []codexrpc.UserInput{{Type: "text", Text: prompt}}})
	for err == nil && status == "" {
		var events []codexrpc.Event
		if events, err = thread.Take(nil); len(events) == 0 && err == nil {
			select {
			case <-thread.Ready():
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		for _, e := range events {
			switch e.Kind {
			case codexrpc.EventTextDelta:
				text += e.Text
			case codexrpc.EventTurnCompleted:
				status = e.Status
			}
		}
	}
	return text, status, err
}

func TestCommandPlaysTurns(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := start(t, "-log", log, "-codex-version", "0.200.0", "-delay", "1us", "-default", "text")
	c, err := p.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		text, status, err := runTurn(t, c, "anything")
		if err != nil || status != codexrpc.StatusCompleted || text == "" {
			t.Errorf("heard %q, %s (%v)", text, status, err)
		}
	}
	if s := p.Status(); s.Version != "0.200.0" || s.State != appserver.StateReady {
		t.Errorf("the status is %+v", s)
	}
	p.Stop()
	heard, err := os.ReadFile(log)
	if n := strings.Count(string(heard), `"method":"turn/start"`); err != nil || n != 2 {
		t.Errorf("the log has %d turns (%v):\n%s", n, err, heard)
	}
}

func TestCommandDies(t *testing.T) {
	p := start(t, "-die-at", "thread/start", "-exit-code", "9")
	c, err := p.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := runTurn(t, c, "anything"); !errors.Is(err, codexrpc.ErrClosed) {
		t.Errorf("got %v", err)
	}
	deadline := time.Now().Add(patience)
	for !strings.Contains(p.Status().Reason, "exit status 9") && p.Status().Restarts == 0 {
		if time.Now().After(deadline) {
			t.Fatalf("the status is %+v", p.Status())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCommandRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown flag":  {"-future"},
		"no recordings":    {"-transcripts", t.TempDir()},
		"another command":  {"-transcripts", transcripts, "debug", "models"},
		"an unwritten log": {"-transcripts", transcripts, "-log", filepath.Join(t.TempDir(), "none", "log")},
	} {
		if code, _ := run(args, strings.NewReader(""), &strings.Builder{}); code == 0 {
			t.Errorf("%s: exit code 0", name)
		}
	}
	if code, err := run([]string{"-transcripts", transcripts, "-mute", "a,b"}, strings.NewReader(""), &strings.Builder{}); code != 0 || err != nil {
		t.Errorf("without input: exit code %d, %v", code, err)
	}
}
