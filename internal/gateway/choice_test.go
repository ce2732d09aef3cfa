package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// TestSideBySide: the first error ends the others and is the one returned.
func TestSideBySide(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			g, _ := exitingGateway(t, Options{MaxConcurrent: 1})
			choices := make([]*choice, n)
			for i := range choices {
				choices[i] = &choice{index: i}
			}
			run := &runningRequest{g: g, ex: new(exchange), choices: choices}
			if err := run.forEachChoice(t.Context(), func(*runningRequest, context.Context, *choice) error { return nil }); err != nil {
				t.Errorf("%d choices end well: %v", n, err)
			}
			fail := func(_ *runningRequest, ctx context.Context, c *choice) error {
				if c.index == n-1 {
					return broken
				}
				<-ctx.Done()
				return ctx.Err()
			}
			if err := run.forEachChoice(t.Context(), fail); !errors.Is(err, broken) {
				t.Errorf("one of %d fails: %v", n, err)
			}
			gone, leave := context.WithCancelCause(t.Context())
			leave(broken)
			wait := func(_ *runningRequest, ctx context.Context, _ *choice) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if err := run.forEachChoice(gone, wait); !errors.Is(err, broken) {
				t.Errorf("the caller of %d has gone: %v", n, err)
			}
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("one of %d panics: %v", n, p)
				}
			}()
			_ = run.forEachChoice(t.Context(), func(_ *runningRequest, ctx context.Context, c *choice) error {
				if c.index == 0 {
					panic(http.ErrAbortHandler)
				}
				<-ctx.Done()
				return nil
			})
			t.Errorf("one of %d panics: nobody hears", n)
		})
	}
}

// brokenRoute decodes requests for two choices that cannot be prepared.
var brokenRoute = Route{API: &chat.API, Route: api.Route{Turn: func(api.Server, *http.Request, []byte) (api.Request, *apierror.Error) {
	return &brokenRequest{chat.Request{Conversation: prompt.Conversation{Settings: prompt.Settings{Choices: 2}}}}, nil
}}}

type brokenRequest struct{ chat.Request }

func (*brokenRequest) Encoded() int64          { panic("broken") }
func (*brokenRequest) Encode() *apierror.Error { return nil }

// TestPanicBeforeTurns: a slot is not lost with a request that panics while it is prepared.
func TestPanicBeforeTurns(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 400, MaxConcurrent: 2})
	func() {
		defer func() {
			if p := recover(); p != "broken" {
				t.Errorf("it panics with %v", p)
			}
		}()
		g.Serve(&brokenRoute, httptest.NewRecorder(), requestOf("a"))
		t.Error("no panic")
	}()
	if n := g.queue.Running(); n != 0 {
		t.Errorf("%d slots are lost", n)
	}
}
