package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// requestOf is a request of a user.
func requestOf(user string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("User", user)
	return r
}

// admitTurns admits the turns of a request of a user, until leave is called.
func admitTurns(ctx context.Context, g *Gateway, user string, turns int) (leave func(), apiErr *apierror.Error) {
	x := g.newExchange(httptest.NewRecorder(), requestOf(user).WithContext(ctx))
	return x.close, g.admit(x, turns)
}

// What a client is told who gets no turn.
func TestAdmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 2, MaxQueue: 1, QueueWait: time.Minute})
		leave, apiErr := admitTurns(t.Context(), g, "a", 2)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		check := func(what string, turns, status int, code apierror.Code, param string, after time.Duration) {
			t.Helper()
			start := time.Now()
			_, apiErr := admitTurns(t.Context(), g, "a", turns)
			if apiErr == nil || apiErr.Status != status || apiErr.Code != code || apiErr.Param != param {
				t.Fatalf("%s: %+v", what, apiErr)
			}
			if status != http.StatusBadRequest && apiErr.RetryAfter == 0 {
				t.Errorf("%s: when to come back is not said", what)
			}
			if took := time.Since(start); took != after {
				t.Errorf("%s: told after %s", what, took)
			}
		}
		check("more than there are", 3, http.StatusBadRequest, "", "n", 0)
		check("no place in time", 1, http.StatusServiceUnavailable, "codex_queue_timeout", "", time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if second, apiErr := admitTurns(t.Context(), g, "a", 1); apiErr != nil {
				t.Error(apiErr)
			} else {
				second()
			}
		}()
		synctest.Wait()
		check("no place to wait", 1, http.StatusTooManyRequests, "codex_queue_full", "", 0)
		leave()
		<-done
	})
}

// A client that goes while it waits leaves its place.
func TestAdmitClientGone(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 1, QueueWait: time.Hour, Logger: discard()})
	leave, apiErr := admitTurns(t.Context(), g, "a", 1)
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, apiErr = admitTurns(ctx, g, "a", 1)
	if apiErr == nil || apiErr.Code != apierror.ClientGone().Code || g.queue.Len() != 0 {
		t.Errorf("%+v, %d wait", apiErr, g.queue.Len())
	}
	w := httptest.NewRecorder()
	if g.refuse(w, requestOf("a").WithContext(ctx), apiErr); w.Code != apierror.ClientGone().Status {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// Users wait for each other, not for all that another has sent.
func TestAdmitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 20, QueueWait: time.Hour})
		leave, apiErr := admitTurns(t.Context(), g, "greedy", 1)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		served := make(chan string, 20)
		wait := func(user string) {
			go func() {
				leave, apiErr := admitTurns(t.Context(), g, user, 1)
				if apiErr != nil {
					t.Error(apiErr)
					return
				}
				served <- user
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait()
		}
		for range 10 {
			wait("greedy")
		}
		wait("modest")
		leave()
		time.Sleep(time.Minute)
		for place := 1; ; place++ {
			if <-served == "modest" {
				if place > 2 {
					t.Errorf("a user with one request came %dth", place)
				}
				break
			}
		}
	})
}

// A user who wants all places leaves some to others, or has a fixed number.
func TestAdmitPerUser(t *testing.T) {
	for most, want := range map[int]int{0: 7, 3: 3, 8: 8} {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 8, MaxPerUser: most})
		if leave, apiErr := admitTurns(t.Context(), g, "b", 1); apiErr != nil {
			t.Fatal(apiErr)
		} else {
			leave()
		}
		got := 0
		g.crowd.Note("b")
		for range 9 {
			if _, apiErr := admitTurns(t.Context(), g, "a", 1); apiErr == nil {
				got++
			} else if apiErr.Code != "codex_queue_full" {
				t.Error(apiErr)
			}
		}
		if got != want {
			t.Errorf("with %d for a user, one got %d places", most, got)
		}
	}
	g, _ := exitingGateway(t, Options{MaxConcurrent: 8, MaxPerUser: 3})
	if _, apiErr := admitTurns(t.Context(), g, "a", 4); apiErr == nil || apiErr.Param != "n" || !strings.Contains(apiErr.Message, "at most 3") {
		t.Errorf("more choices than a user may have: %v", apiErr)
	}
}
