package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

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
			told := &leavingWitness{leave: func() {}}
			if c.leaves {
				told.leave = leave
			}
			g := newGateway(c.u, Options{MaxConcurrent: 4, Observer: told})
			w := httptest.NewRecorder()
			g.Chat(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(c.body)))
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

// leavingWitness lets the client leave as soon as the turns have started.
type leavingWitness struct {
	witness
	leave func()
}

func (w *leavingWitness) AnswerBegan(stream bool) func() {
	w.leave()
	return w.witness.AnswerBegan(stream)
}
