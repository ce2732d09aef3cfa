package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// newPlayed is an upstream whose app-server runs within the test, with options
// that may differ for each start.
func newPlayed(t *testing.T, options func(start int) fakecodex.Options) *fakeUpstream {
	t.Helper()
	transcripts, err := fakecodex.Load(filepath.Join("..", "..", "testdata", "transcripts"))
	if err != nil {
		t.Fatal(err)
	}
	starts := 0
	u := &fakeUpstream{process: appserver.New(appserver.Config{
		StopTimeout: time.Second,
		Start: func() (*appserver.Program, error) {
			starts++
			opts := options(starts)
			opts.Transcripts = transcripts
			return play(opts), nil
		},
	}, nil)}
	u.process.Start()
	t.Cleanup(u.process.Stop)
	return u
}

// play is an app-server that plays recordings.
func play(opts fakecodex.Options) *appserver.Program {
	stdin, toProgram := io.Pipe()
	fromProgram, stdout := io.Pipe()
	stderr, complaints := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	end := func() { cancel(errors.New("killed")) }
	return &appserver.Program{
		Stdin: toProgram, Stdout: fromProgram, Stderr: stderr, PID: 1, Terminate: end, Kill: end,
		Wait: func() string {
			err := fakecodex.Serve(ctx, stdin, stdout, opts)
			cancel(err)
			for _, pipe := range []io.Closer{stdin, stdout, complaints} {
				_ = pipe.Close()
			}
			return "ended"
		},
	}
}

// TestAppServerEndsAtTheStart: a request whose app-server ends before its turn has
// begun waits for the next one, also if there is no other.
func TestAppServerEndsAtTheStart(t *testing.T) {
	u := newPlayed(t, func(start int) fakecodex.Options {
		opts := fakecodex.Options{Default: "text"}
		if start == 1 {
			opts.Faults.DieAt = "thread/start"
		}
		return opts
	})
	g := newGateway(u, Options{MaxConcurrent: 1})
	answer := httptest.NewRecorder()
	g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)))
	if answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if n := u.process.Status().Restarts; n != 1 {
		t.Errorf("it was started again %d times", n)
	}
}
