package appserver

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestExplainLimit checks that the failure of a spent plan gets its reset from what is known of the meter.
func TestExplainLimit(t *testing.T) {
	in := new(Instance)
	unknown := func(context.Context) *codexrpc.Meter { return nil }
	known := func(context.Context) *codexrpc.Meter {
		return &codexrpc.Meter{Primary: &codexrpc.RateWindow{UsedPercent: 100, ResetsAt: time.Unix(4_000_000_000, 0)}}
	}
	bare := &codexrpc.TurnError{Message: "spent", Code: codexrpc.CodeUsageLimit}
	for _, err := range []error{nil, codexrpc.ErrClosed, &codexrpc.TurnError{Code: "other"}} {
		if got := in.ExplainLimit(t.Context(), err, known); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := in.ExplainLimit(t.Context(), bare, unknown); got != error(bare) {
		t.Errorf("not known: %v", got)
	}
	failed, ok := errors.AsType[*codexrpc.TurnError](in.ExplainLimit(t.Context(), bare, known))
	if !ok || !failed.ResetsAt.Equal(time.Unix(4_000_000_000, 0)) || failed.Message != "spent" || !bare.ResetsAt.IsZero() {
		t.Errorf("got %+v", failed)
	}
	worded := &codexrpc.TurnError{Message: "try again at Nov 23rd, 2099 2:05 PM.", Code: codexrpc.CodeUsageLimit}
	if failed, ok := errors.AsType[*codexrpc.TurnError](in.ExplainLimit(t.Context(), worded, unknown)); !ok || failed.ResetsAt.Year() != 2099 {
		t.Errorf("by its words: %+v", failed)
	}
}

// TestExplainWait checks that a failure gets the time until which the provider has asked to wait, also
// if the line of the log is read a moment after it, but not from an old line.
func TestExplainWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			asked time.Duration // when the line is read, from the failure on
			want  bool
		}{"before": {-time.Second / 2, true}, "after": {logLag / 2, true}, "long before": {-2 * maxWaitAge, false}, "too late": {2 * logLag, false}} {
			in, failed := new(Instance), time.Now().Add(time.Hour)
			time.AfterFunc(time.Until(failed.Add(c.asked)), func() { in.wait.Store(&askedWait{time.Now(), time.Now().Add(time.Minute)}) })
			time.Sleep(time.Until(failed))
			got, _ := errors.AsType[*codexrpc.TurnError](in.ExplainLimit(t.Context(), &codexrpc.TurnError{HTTPStatus: http.StatusTooManyRequests}, nil))
			if want := failed.Add(c.asked + time.Minute); got.ResetsAt.Equal(want) != c.want || !c.want && !got.ResetsAt.IsZero() {
				t.Errorf("%s: %v, want %v", name, got.ResetsAt, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestResetIn reads the times in messages about a spent plan.
func TestResetIn(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 5, 44, 0, time.Local)
	for message, want := range map[string]time.Time{
		"You’ve hit your usage limit. Visit a page or try again at 8:07 AM.": time.Date(2026, 11, 22, 8, 8, 0, 0, time.Local),
		"try again at 8:05 AM.":                      time.Date(2026, 11, 22, 8, 6, 0, 0, time.Local),
		"try again at 8:04 AM.":                      time.Date(2026, 11, 23, 8, 5, 0, 0, time.Local),
		"try again at 12:30 PM.":                     time.Date(2026, 11, 22, 12, 31, 0, 0, time.Local),
		"try again at Nov 23rd, 2026 2:05 PM.":       time.Date(2026, 11, 23, 14, 6, 0, 0, time.Local),
		"or try again at Dec 1st, 2026 8:05 AM.":     time.Date(2026, 12, 1, 8, 6, 0, 0, time.Local),
		"try again at Nov 21st, 2026 8:05 AM.":       {}, // it is over
		"try again at Nov 31st, 2026 8:05 AM.":       {},
		"try again at 31:05 AM.":                     {},
		"try again later":                            {},
		"try again at Nov 23rd, 99999999 2:05 PM":    {},
		"The usage limit has been reached (8:07 AM)": {},
	} {
		at, ok := parseResetTime(message, now)
		if ok == want.IsZero() || ok && !at.Equal(want) {
			t.Errorf("%s: %v %t, want %v", message, at, ok, want)
		}
	}
}
