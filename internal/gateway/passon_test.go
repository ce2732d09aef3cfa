package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// spentError are the lines of a turn that finds the plan spent.
func spentError(a fakecodex.Asked, before ...string) []fakecodex.Step {
	const failure = `"error":{"message":"spent","codexErrorInfo":"usageLimitExceeded"}`
	steps := begun(a, append(before, `error {`+failure+`,"willRetry":false}`)...)
	return append(steps, begun(a, `turn/completed {"turn":{"id":"`+a.Turn+`","status":"failed",`+failure+`}}`)[1])
}

// spending is an app-server whose turns say these lines and then find the plan spent.
func spending(t *testing.T, before ...string) *fakeUpstream {
	return newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step { return spentError(a, before...) }})
}

// later is the next handler.
type later struct {
	g      *Gateway
	w      *httptest.ResponseRecorder
	served atomic.Int32
	serves bool
	body   []byte // of the last request
	before Held   // what it held when next began, and when its body was read
	after  Held
	panics bool
}

func (l *later) next(_ *http.Request, body io.Reader) bool {
	l.served.Add(1)
	l.before = l.g.Held()
	l.body, _ = io.ReadAll(body)
	l.after = l.g.Held()
	if l.panics {
		panic(http.ErrAbortHandler)
	}
	if l.serves {
		l.w.WriteHeader(http.StatusTeapot)
	}
	return l.serves
}

// answer returns the answer to a request.
func (l *later) answer(r *http.Request) *httptest.ResponseRecorder {
	l.w = httptest.NewRecorder()
	l.g.ServeHTTP(l.w, r)
	return l.w
}

func newLater(t *testing.T, u *fakeUpstream, opts Options) (*later, *witness) {
	l, w := &later{serves: true}, new(witness)
	opts.MaxConcurrent, opts.Next, opts.Observer, opts.Responses = 4, l.next, w, memoryStore(1<<26, time.Hour)
	l.g = newGateway(u, opts)
	return l, w
}

// TestPassOn checks what the next handler gets, what a request holds meanwhile, and how it is counted, when its
// own turn finds the plan spent, and when that is known.
func TestPassOn(t *testing.T) {
	key := &quota.Key{ID: "k", Account: "k", MaxConcurrent: 1, Limits: []quota.Limit{hourly(t, quota.Requests, 6), hourly(t, quota.Tokens, 100_000)}}
	limits := quota.NewLimits(quota.NewLedger(time.Now), 0, false)
	filler := strings.Repeat("x", 200<<10)
	chat := `{"model":"gpt-5.5","messages":[{"role":"user","content":"` + filler + `"}]}`
	for _, known := range []bool{false, true} {
		for name, c := range map[string]struct {
			path, body string
			packed     bool
		}{
			"whole": {chatPath, chat, false}, "stream": {chatPath, strings.Replace(chat, "{", `{"stream":true,`, 1), false},
			"packed": {chatPath, chat, true}, "response": {responsesPath, `{"model":"gpt-5.5","input":"` + filler + `"}`, false},
			"choices": {chatPath, strings.Replace(chat, "{", `{"n":2,`, 1), false},
		} {
			u := spending(t)
			if known {
				u.login.Fail("gpt-5.5", &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit, Message: "spent"}, 0)
			}
			opts := Options{}
			if c.path == chatPath && name != "choices" {
				opts.Key, opts.Limits = func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil }, limits
			}
			l, seen := newLater(t, u, opts)
			body := []byte(c.body)
			if c.packed {
				var packed bytes.Buffer
				z := gzip.NewWriter(&packed)
				_, _ = z.Write(body)
				must.OK(t, z.Close())
				body = packed.Bytes()
			}
			r := httptest.NewRequest(http.MethodPost, c.path, bytes.NewReader(body))
			if c.packed {
				r.Header.Set("Content-Encoding", "gzip")
			}
			w := l.answer(r)
			if w.Code != http.StatusTeapot || l.served.Load() != 1 || !bytes.Equal(l.body, body) {
				t.Errorf("%s, known %t: %d, %d times, with %d bytes", name, known, w.Code, l.served.Load(), len(l.body))
			}
			l.before.Codex, l.after.Codex = 0, 0 // the app-server may still end the turn of another choice
			if (l.before != Held{Bodies: int64(len(body))}) || l.after != (Held{}) {
				t.Errorf("%s, known %t: next holds %+v, later %+v", name, known, l.before, l.after)
			}
			if len(seen.turns) != 1 || seen.turns[0].Code != "spent_next" || seen.turns[0].Status != http.StatusTooManyRequests || seen.turns[0].Model != "gpt-5.5" || seen.turns[0].Route == "" || (opts.Key != nil) != (seen.turns[0].Key == "k") || len(seen.failed) != 1 || seen.failed[0].Code != "spent_next" || seen.open != 0 {
				t.Errorf("%s, known %t: %+v", name, known, seen)
			}
			checkNothingHeld(t, l.g)
		}
	}
	for _, s := range limits.States(t.Context(), []*quota.Key{key})[0] {
		if want := map[quota.Unit]int64{quota.Requests: 6, quota.Tokens: 0}[s.Unit]; s.Used != want {
			t.Errorf("the key has used %d %s, want %d", s.Used, s.Unit, want)
		}
	}
}

// TestNotPassedOn checks that the client gets the error if the answer has begun, if the request or its key is to
// stay, or if nobody serves it.
func TestNotPassedOn(t *testing.T) {
	chat, stream := `{"model":"m","messages":[{"role":"user","content":"x"}]}`, `{"stream":true,"model":"m","messages":[{"role":"user","content":"x"}]}`
	for name, c := range map[string]struct {
		path, body string
		u          func() *fakeUpstream
		change     func(*later)
		times      int32 // that the next handler was tried
	}{
		"after text":            {chatPath, stream, func() *fakeUpstream { return spending(t, textPart("half")) }, nil, 0},
		"after text, one body":  {chatPath, chat, func() *fakeUpstream { return spending(t, textPart("half")) }, nil, 0},
		"after text, responses": {responsesPath, `{"model":"m","input":"x","stream":true}`, func() *fakeUpstream { return spending(t, textPart("half")) }, nil, 0},
		"after the header": {chatPath, stream, func() *fakeUpstream {
			return newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
				return append([]fakecodex.Step{begun(a)[0], {Pause: headerDelay + time.Second, Message: `{}`}}, spentError(a)[1:]...)
			}})
		}, nil, 0},
		"background": {responsesPath, `{"model":"m","input":"x","background":true}`, func() *fakeUpstream { return spending(t) }, nil, 0},
		"a key that stays": {chatPath, chat, func() *fakeUpstream { return spending(t) }, func(l *later) {
			l.g.opts.Key = func(*http.Request) (*quota.Key, *apierror.Error) {
				return &quota.Key{ID: "k", Account: "k", StaysIfSpent: true}, nil
			}
			l.g.opts.Limits = quota.NewLimits(quota.NewLedger(time.Now), 0, false)
		}, 0},
		"a count":      {"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, func() *fakeUpstream { return spending(t) }, nil, 0},
		"another":      {chatPath, chat, func() *fakeUpstream { return newFakeUpstream(t, fakecodex.Options{Default: "error-http-429"}) }, nil, 0},
		"invalid":      {chatPath, `{"model":"m"`, func() *fakeUpstream { return spending(t) }, nil, 0},
		"nobody":       {chatPath, chat, func() *fakeUpstream { return spending(t) }, func(l *later) { l.serves = false }, 1},
		"nobody there": {responsesPath, `{"model":"m","input":"x"}`, func() *fakeUpstream { return spending(t) }, func(l *later) { l.serves = false }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l, seen := newLater(t, c.u(), Options{})
			if c.change != nil {
				c.change(l)
			}
			w := l.answer(posting(c.path, c.body))
			if w.Code == http.StatusTeapot || l.served.Load() != c.times {
				t.Errorf("%d %s, passed on %d times", w.Code, w.Body, l.served.Load())
			}
			waitForAll(t, l.g)
			if strings.Contains(fmt.Sprint(seen.failed, seen.turns), "spent_next") {
				t.Errorf("%+v", seen)
			}
			if c.times > 0 && (w.Code != http.StatusTooManyRequests || len(seen.failed) != 1 || seen.failed[0].Code != apierror.CodeInsufficientQuota) {
				t.Errorf("%d %s, %+v", w.Code, w.Body, seen)
			}
			checkNothingHeld(t, l.g)
		})
	}
}

// TestPassOnPanics checks that a request counts, and holds nothing, if the next handler breaks its answer off.
func TestPassOnPanics(t *testing.T) {
	l, seen := newLater(t, spending(t), Options{})
	l.panics = true
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("no panic")
			}
		}()
		l.answer(posting(chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	}()
	if len(seen.turns) != 1 || len(seen.failed) != 1 || seen.failed[0].Code != "spent_next" {
		t.Errorf("%+v", seen)
	}
	checkNothingHeld(t, l.g)
}

// TestKeptUntilOutput checks that a request keeps its body until its answer begins, and no longer.
func TestKeptUntilOutput(t *testing.T) {
	filler := strings.Repeat("x", 200<<10)
	for path, body := range map[string]string{
		chatPath:      `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + filler + `"}]}`,
		responsesPath: `{"model":"m","stream":true,"store":false,"input":"` + filler + `"}`,
	} {
		for said, lines := range map[string][]string{"nothing": nil, "half": {textPart("half")}} {
			l, _ := newLater(t, stalling(t, lines...), Options{})
			ctx, leave := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { _ = recover() }() // the stream has no end
				l.answer(posting(path, body).WithContext(ctx))
			})
			begun := time.Now()
			must.Happen(t, "the turn to run", func() bool { return l.g.Held().Turns == 1 && l.g.Held().Codex > 0 }, func() string { return fmt.Sprintf("%+v", l.g.Held()) })
			if said == "nothing" {
				if held := l.g.Held().Bodies; held < int64(len(body)) && time.Since(begun) < headerDelay/2 {
					t.Errorf("%s: before the answer %d bytes are held", path, held)
				}
			} else {
				must.Happen(t, "the body to be released", func() bool { return l.g.Held().Bodies < 4<<10 }, func() string { return fmt.Sprintf("%+v", l.g.Held()) })
			}
			leave()
			all.Wait()
			if checkNothingHeld(t, l.g); l.served.Load() > 0 {
				t.Errorf("%s: it was passed on", path)
			}
		}
	}
}
