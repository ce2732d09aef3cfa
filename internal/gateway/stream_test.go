package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func testEvents() (*events, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	meta := openai.Meta{ID: "chatcmpl-1", Model: "m"}
	return newEvents(w, chatWire{meta}, 10*time.Second, nil), w
}

var (
	textOutput    = turn.Output{Kind: turn.OutputText, Text: "hi"}
	finishOutput  = turn.Output{Kind: turn.OutputFinish, Finish: turn.FinishStop}
	failureOutput = turn.Output{Kind: turn.OutputFailure, Err: codexrpc.ErrClosed}
)

// TestFailureBeforeOutput: it is an HTTP status, as long as no header was sent.
func TestFailureBeforeOutput(t *testing.T) {
	s, w := testEvents()
	if err := s.take(0, []turn.Output{failureOutput}); err != nil {
		t.Fatal(err)
	}
	if s.refusal == nil || s.refusal.Status != http.StatusServiceUnavailable || w.Body.Len() != 0 {
		t.Errorf("refusal %v, body %q", s.refusal, w.Body)
	}
	if r := (&choice{machine: turn.New(turn.Options{})}).record(s.failure(), nil); r.Status != http.StatusServiceUnavailable || r.Code != "codex_exited" {
		t.Errorf("%+v", r)
	}
}

// TestWakeAfterFailure: the choice that is woken last must not write a header
// before the status of the one that has failed.
func TestWakeAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := testEvents()
		var lock sync.Mutex
		failed := &consumer{
			choice: &choice{machine: turn.New(turn.Options{})}, to: s, lock: &lock,
			refused: func(error) bool { return false },
			explain: func(err error) error { return err },
			settle:  func(bool) {},
		}
		other := &consumer{to: s, lock: &lock, settle: func(bool) {}}
		time.Sleep(headerDelay)
		if err := failed.Consume([]turn.Output{failureOutput}); !errors.Is(err, errOver) {
			t.Errorf("the failed choice: %v", err)
		}
		if err := other.Wake(); !errors.Is(err, errOver) || w.Flushed || s.refusal == nil {
			t.Errorf("the other: %v, written: %t", err, w.Flushed)
		}
		// What the other has cost is known all the same.
		other.choice = &choice{machine: turn.New(turn.Options{})}
		finish := turn.Output{Kind: turn.OutputFinish, Usage: codexrpc.Usage{TotalTokens: 7}}
		if err := other.Consume([]turn.Output{finish}); !errors.Is(err, errOver) || other.choice.usage.TotalTokens != 7 {
			t.Errorf("the other ends: %v, %+v", err, other.choice.usage)
		}
	})
}

func TestFailureAfterOutput(t *testing.T) {
	for name, batches := range map[string][][]turn.Output{
		"later":    {{textOutput}, {failureOutput}},
		"at once":  {{textOutput, failureOutput}},
		"awakened": {nil, {failureOutput}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := testEvents()
				for _, batch := range batches {
					if batch == nil {
						time.Sleep(headerDelay)
						if err := s.wake(); err != nil {
							t.Fatal(err)
						}
						continue
					}
					if err := s.take(0, batch); err != nil {
						t.Fatal(err)
					}
				}
				if s.refusal != nil {
					t.Error("a status after the header:", s.refusal)
				}
				if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `{"error":`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("%d %q", w.Code, body)
				}
			})
		})
	}
}

// TestHeaderAndKeepalives: the header waits for a second, then come comments.
func TestHeaderAndKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := testEvents()
		if got := s.nextWake(); got != headerDelay {
			t.Errorf("the header is due in %s", got)
		}
		if err := s.wake(); err != nil || w.Flushed {
			t.Errorf("the header went out early: %v", err)
		}
		time.Sleep(s.nextWake())
		if err := s.wake(); err != nil || !w.Flushed || w.Code != 200 {
			t.Errorf("the header is late: %v", err)
		}
		if got := w.Header().Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("content type %q", got)
		}
		time.Sleep(s.nextWake())
		if err := s.wake(); err != nil || w.Body.String() != ": keepalive\n\n" {
			t.Errorf("%v, body %q", err, w.Body)
		}
	})
}

func TestConsumeFlushesOnce(t *testing.T) {
	w := &flushCounter{ResponseRecorder: httptest.NewRecorder()}
	s := newEvents(w, chatWire{}, time.Minute, nil)
	if err := s.take(0, []turn.Output{textOutput, textOutput, textOutput, finishOutput}); err != nil {
		t.Fatal(err)
	}
	if w.flushes != 1 || strings.Count(w.Body.String(), "data: ") != 6 {
		t.Errorf("%d flushes of %q", w.flushes, w.Body)
	}
}

// flushCounter counts flushes.
type flushCounter struct {
	*httptest.ResponseRecorder
	flushes int
}

func (f *flushCounter) FlushError() error {
	f.flushes++
	return nil
}

func TestRecordOfALostClient(t *testing.T) {
	c := &choice{machine: turn.New(turn.Options{})}
	c.see([]turn.Output{textOutput, finishOutput})
	if r := c.record(nil, errors.New("broken pipe")); r.Status != 499 || r.Code != openai.FromFailure(context.Canceled).Code {
		t.Errorf("%+v", r)
	}
}
