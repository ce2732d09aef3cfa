package gateway

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// TestAbandonedInBlock: a block that is open when the client of a response leaves, or when a
// response in the background is cancelled, is a part of what is stored.
func TestAbandonedInBlock(t *testing.T) {
	const said = "so <use_tool><name>f"
	u := stalling(t, textPart(said))
	url, _ := responsesServer(t, u, Options{})
	const untilText = 5 // events: created, in progress, item, part, the text before the block
	for name, background := range map[string]bool{"the client leaves": false, "cancelled": true} {
		body := fmt.Sprintf(`{"model":"m","instructions":"Write <use_tool>.","input":"x","stream":true,"background":%t}`, background)
		_, answer := call(t, http.MethodPost, url, body, untilText)
		one := url + "/" + idIn(t, answer)
		if !strings.Contains(answer, `"delta":"so "`) || strings.Contains(answer, "<name>") {
			t.Fatalf("%s: the begin %s", name, answer)
		}
		if background {
			call(t, http.MethodPost, one+"/cancel", "", -1)
		}
		stored := ""
		for end := time.Now().Add(patience); !strings.Contains(stored, `"status":"cancelled"`) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, stored = call(t, http.MethodGet, one, "", -1)
		}
		if !strings.Contains(stored, `"text":"so \u003cuse_tool\u003e\u003cname\u003ef"`) && !strings.Contains(stored, `"text":"`+said+`"`) {
			t.Errorf("%s: stored %s", name, stored)
		}
	}
}

// TestAbandonedUsage: a turn whose client leaves counts the input that the model was sent, and what
// it has said or thought, and says that this is an estimate.
func TestAbandonedUsage(t *testing.T) {
	for name, c := range map[string]struct {
		method, delta string
		least, most   int64 // tokens of the output
	}{
		"text":    {"item/agentMessage/delta", "one two three", 3, 4},
		"summary": {"item/reasoning/summaryTextDelta", strings.Repeat("hm ", 100), 70, 80},
	} {
		u := stalling(t, fmt.Sprintf(`%s {"itemId":"m","summaryIndex":0,"delta":%q}`, c.method, c.delta))
		ended := recorded{turns: make(chan usage.Record, 1)}
		url, _ := responsesServer(t, u, Options{Observer: ended})
		const untilText = 5 // events: created, in progress, item, part, the text
		body := `{"model":"m","input":"` + strings.Repeat("word ", 1000) + `","stream":true}`
		if _, answer := call(t, http.MethodPost, url, body, untilText); !strings.Contains(answer, c.delta) {
			t.Fatal(name, answer)
		}
		record := <-ended.turns
		if in, out := record.Usage.InputTokens, record.Usage.OutputTokens; !record.Estimated || in < 900 || in > 1500 || out < c.least || out > c.most || record.Usage.TotalTokens != in+out {
			t.Errorf("%s: %+v", name, record)
		}
	}
}

// TestAbandonedStart: a turn whose client leaves while it begins is in the usage, as its key is
// charged for it.
func TestAbandonedStart(t *testing.T) {
	begun := make(chan struct{}, 1)
	u := newFakeUpstream(t, fakecodex.Options{Turn: func(fakecodex.Asked) []fakecodex.Step {
		begun <- struct{}{}
		return []fakecodex.Step{{Pause: patience, Message: `{}`}}
	}})
	ended := recorded{turns: make(chan usage.Record, 1)}
	url, _ := responsesServer(t, u, Options{Observer: ended})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"m","input":"`+strings.Repeat("word ", 1000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		leave()
	}()
	if response, err := http.DefaultClient.Do(r); err == nil {
		response.Body.Close()
		t.Fatal("it was answered with ", response.Status)
	}
	select {
	case record := <-ended.turns:
		if in := record.Usage.InputTokens; !record.Estimated || in < 900 || in > 1500 || record.Code != apierror.ClientGone().Code {
			t.Errorf("%+v", record)
		}
	case <-time.After(patience):
		t.Fatal("the turn was not recorded")
	}
}

type recorded struct {
	unobserved
	turns chan usage.Record
}

func (r recorded) TurnsEnded(_ context.Context, turns []usage.Record) {
	for _, record := range turns {
		r.turns <- record
	}
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
		c := &choice{run: &runningRequest{ex: new(exchange), err: broken, responder: new(responder), req: &request{statusEntry: new(status.Entry)}}}
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

// TestReportedOnce: an observer is called once for each failure, however far its request
// had come, and once for each turn that was run, with the same status.
func TestReportedOnce(t *testing.T) {
	const failing = `{"model":"m","messages":[{"role":"user","content":"fail:insufficient_quota"}]`
	const asking = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	playing := newFakeUpstream(t, fakecodex.Options{Default: "text"})
	silent := newStubUpstream(t)
	for name, c := range map[string]struct {
		u      *fakeUpstream
		body   string
		leaves bool
		status int
		turns  int
	}{
		"refused":                         {playing, `{}`, false, 400, 0},
		"a failed turn":                   {playing, failing + `}`, false, 429, 1},
		"a failed turn of a stream":       {playing, failing + `,"stream":true}`, false, 429, 1},
		"failed turns":                    {playing, failing + `,"n":3}`, false, 429, 3},
		"a client that left":              {silent, asking + `}`, true, 499, 1},
		"a client that left a stream":     {silent, asking + `,"stream":true}`, true, 499, 1},
		"a client that left some choices": {silent, asking + `,"stream":true,"n":2}`, true, 499, 2},
		"served":                          {playing, asking + `}`, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			told := new(witness)
			if c.leaves { // as soon as the turns have started
				told.began = leave
			}
			g := newGateway(c.u, Options{MaxConcurrent: 4, Observer: told})
			w := answerTo(g, posting(chatPath, c.body).WithContext(ctx))
			failures := 1
			if c.status == 0 {
				failures, c.status = 0, 200
			}
			if len(told.failed) != failures || len(told.turns) != c.turns || w.Code != c.status {
				t.Fatalf("answered %d, told of failures %v, turns %+v", w.Code, told.failed, told.turns)
			}
			for _, e := range told.failed {
				if e.Status != c.status {
					t.Errorf("told of %+v", e)
				}
			}
			for _, r := range told.turns {
				if r.Status != c.status || c.leaves && (!r.Estimated || r.Usage.InputTokens == 0) { // the model was asked
					t.Errorf("told of %+v", r)
				}
			}
		})
	}
}
