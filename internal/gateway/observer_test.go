package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// witness remembers what an observer is told.
type witness struct {
	failed []*apierror.Error
	turns  []usage.Record
	open   int
}

func (w *witness) AnswerBegan(bool) func() {
	w.open++
	return func() { w.open-- }
}
func (w *witness) TurnsEnded(_ context.Context, turns []usage.Record) {
	w.turns = append(w.turns, turns...)
}
func (w *witness) RequestFailed(_ *http.Request, err *apierror.Error) {
	w.failed = append(w.failed, err)
}

// TestRefusalIsTold: also of a client that has gone, which gets a 499. The log does
// not have the message, which may quote the request.
func TestRefusalIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		gone   bool
		status int
		logged bool
	}{
		"the request's fault": {false, http.StatusBadRequest, false},
		"the server's":        {false, http.StatusBadGateway, true},
		"nobody's":            {true, http.StatusBadRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			told := new(witness)
			g, _ := exitingGateway(t, Options{
				MaxConcurrent: 1, Observer: told,
				Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if test.gone {
				leave()
			}
			e := &apierror.Error{Status: test.status, Code: "a_code", Param: strings.Repeat("p", 1000), Message: "not this: secret"}
			w := httptest.NewRecorder()
			g.writeAnswer(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), claims.Bytes{}, e)
			want := e
			if test.gone {
				want = apierror.ClientGone()
			}
			if len(told.failed) != 1 || told.failed[0].Code != want.Code {
				t.Errorf("told %v", told.failed)
			}
			if w.Code != want.Status || w.Body.Len() == 0 {
				t.Errorf("answered %d %q", w.Code, w.Body)
			}
			if strings.Contains(log.String(), "secret") != test.logged || strings.Contains(log.String(), strings.Repeat("p", maxLoggedParam+1)) {
				t.Errorf("logged %s", &log)
			}
		})
	}
}

// TestFirstOutput: the first text, reasoning or call counts, no end.
func TestFirstOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("nothing is written")
		c := &choice{group: &turnGroup{err: broken}, statusEntry: new(status.Entry)}
		consume := func(outputs ...turn.Output) {
			if err := c.Consume(outputs); !errors.Is(err, broken) {
				t.Error(err)
			}
		}
		consume(failureOutput)
		if !c.firstOutput.IsZero() {
			t.Error("a failure is an output")
		}
		begin := time.Now()
		time.Sleep(time.Second)
		consume(textOutput, finishOutput)
		time.Sleep(time.Second)
		consume(textOutput)
		if got := c.firstOutput.Sub(begin); got != time.Second {
			t.Errorf("the first output came after %s", got)
		}
	})
}
