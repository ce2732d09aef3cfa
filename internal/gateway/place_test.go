package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// newPlayed returns an upstream whose app-server plays recordings, with options
// that may differ for each start.
func newPlayed(t *testing.T, options func(start int) fakecodex.Options) *fakeUpstream {
	t.Helper()
	all := transcripts(t)
	starts := 0
	u := &fakeUpstream{process: appserver.New(appserver.Config{
		Start: func() (*appserver.Program, error) {
			starts++
			return startServing(playing(all, options(starts))), nil
		},
	}, nil)}
	u.process.Start()
	t.Cleanup(u.process.Stop)
	return u
}

// transcripts loads the repository's recordings.
func transcripts(t testing.TB) *fakecodex.Transcripts {
	t.Helper()
	all, err := fakecodex.Load(filepath.Join("..", "..", "testdata", "transcripts"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// playing returns a serve function that plays recordings.
func playing(all *fakecodex.Transcripts, opts fakecodex.Options) func(in io.Reader, out io.Writer) {
	opts.Transcripts = all
	return func(in io.Reader, out io.Writer) { _ = fakecodex.Serve(context.Background(), in, out, opts) }
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
