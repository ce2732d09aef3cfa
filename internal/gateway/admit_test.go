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

// What a client is told who gets no turn.
func TestAdmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 2, MaxQueue: 1, QueueWait: time.Minute})
		leave, refusal := g.admit(t.Context(), "a", 2)
		if refusal != nil {
			t.Fatal(refusal)
		}
		check := func(what string, turns, status int, code apierror.Code, param string, after time.Duration) {
			t.Helper()
			start := time.Now()
			_, refusal := g.admit(t.Context(), "a", turns)
			if refusal == nil || refusal.Status != status || refusal.Code != code || refusal.Param != param {
				t.Fatalf("%s: %+v", what, refusal)
			}
			if status != http.StatusBadRequest && refusal.RetryAfter == 0 {
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
			if second, refusal := g.admit(t.Context(), "a", 1); refusal != nil {
				t.Error(refusal)
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
	leave, refusal := g.admit(t.Context(), "a", 1)
	if refusal != nil {
		t.Fatal(refusal)
	}
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, refusal = g.admit(ctx, "a", 1)
	if refusal == nil || refusal.Code != apierror.ClientGone().Code || g.queue.Len() != 0 {
		t.Errorf("%+v, %d wait", refusal, g.queue.Len())
	}
	w := httptest.NewRecorder()
	if g.refuse(w, requestOf("a").WithContext(ctx), refusal); w.Code != apierror.ClientGone().Status {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// Users wait for each other, not for all that another has sent.
func TestAdmitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxConcurrent: 1, MaxQueue: 20, QueueWait: time.Hour})
		leave, refusal := g.admit(t.Context(), "greedy", 1)
		if refusal != nil {
			t.Fatal(refusal)
		}
		served := make(chan string, 20)
		wait := func(user string) {
			go func() {
				leave, refusal := g.admit(t.Context(), user, 1)
				if refusal != nil {
					t.Error(refusal)
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
		if leave, refusal := g.admit(t.Context(), "b", 1); refusal != nil {
			t.Fatal(refusal)
		} else {
			leave()
		}
		got := 0
		for range 9 {
			if _, refusal := g.admit(t.Context(), "a", 1); refusal == nil {
				got++
			} else if refusal.Code != "codex_queue_full" {
				t.Error(refusal)
			}
		}
		if got != want {
			t.Errorf("with %d for a user, one got %d places", most, got)
		}
	}
	g, _ := exitingGateway(t, Options{MaxConcurrent: 8, MaxPerUser: 3})
	if _, refusal := g.admit(t.Context(), "a", 4); refusal == nil || refusal.Param != "n" || !strings.Contains(refusal.Message, "at most 3") {
		t.Errorf("more choices than a user may have: %v", refusal)
	}
}
