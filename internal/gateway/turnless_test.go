package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// stuckWriter is the writer of an answer whose client reads nothing: a write ends with its
// deadline.
type stuckWriter struct {
	*httptest.ResponseRecorder
	deadline atomic.Pointer[time.Time]
}

func (s *stuckWriter) SetWriteDeadline(at time.Time) error {
	s.deadline.Store(&at)
	return nil
}

func (s *stuckWriter) Write([]byte) (int, error) {
	time.Sleep(time.Until(*s.deadline.Load()))
	return 0, os.ErrDeadlineExceeded
}

// slowWriter is the writer of an answer whose client reads each piece just in time.
type slowWriter struct {
	stuckWriter
	read int
}

func (s *slowWriter) Write(piece []byte) (int, error) {
	time.Sleep(time.Until(*s.deadline.Load()) - time.Millisecond)
	s.read += len(piece)
	return len(piece), nil
}

// visitsOf returns a gateway for several users, whose answers take at most answers bytes, and the
// paths of what each user has: a conversation and a response of size bytes.
func visitsOf(t *testing.T, answers int64, size int, users ...string) (g *Gateway, paths map[string]map[string]string) {
	store := memoryStore(1<<30, time.Hour)
	g = newGateway(nil, Options{MaxConcurrent: 1, Responses: store, Several: func() bool { return true }})
	g.answerBudget = claims.NewBudget(answers, int64(size)+4096, g.crowd)
	paths = make(map[string]map[string]string)
	for _, user := range users {
		text := json.RawMessage(`{"id":"msg_1","type":"message","role":"user","content":"` + strings.Repeat("x", size) + `"}`)
		suffix := responseid.NewSuffix(time.Now())
		conversation, response := responseid.ConversationPrefix+suffix, responseid.Prefix+suffix
		for id, object := range map[string]json.RawMessage{conversation: json.RawMessage(`{}`), response: text} {
			if err := store.Put(t.Context(), id, &objects.Entry{User: user, Response: object, Input: []json.RawMessage{text}}); err != nil {
				t.Fatal(err)
			}
		}
		items, response := "/v1/conversations/"+conversation+"/items", responsesPath+"/"+response
		paths[user] = map[string]string{"items": items, "item": items + "/msg_1", "input items": response + "/input_items", "response": response}
	}
	return g, paths
}

func getAs(t *testing.T, user, path string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("User", user)
	return r
}

// TestReadersThatDoNotRead: whatever a user asks for and does not read takes half of the memory at
// most, another user is answered meanwhile, and nothing is held once the time has passed.
func TestReadersThatDoNotRead(t *testing.T) {
	const size, memory = 100 << 10, 1 << 20
	for _, name := range []string{"items", "item", "input items", "response"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, paths := visitsOf(t, memory, size, "a", "b")
				var all sync.WaitGroup
				var refused atomic.Int64
				for range 60 {
					all.Go(func() {
						w := &stuckWriter{ResponseRecorder: httptest.NewRecorder()}
						g.ServeHTTP(w, getAs(t, "a", paths["a"][name]))
						if w.Code != http.StatusOK {
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				if held := g.answerBudget.Held(); held < memory/4 || held > memory/2 {
					t.Errorf("one user holds %d bytes of %d", held, memory)
				}
				w := answerTo(g, getAs(t, "b", paths["b"][name]))
				if w.Code != http.StatusOK || w.Body.Len() < size {
					t.Errorf("another user gets %d, %.200q", w.Code, w.Body)
				}
				began := time.Now()
				all.Wait()
				if took := time.Since(began); took > WriteTimeout || refused.Load() < 50 {
					t.Errorf("%d were refused, the others took %s", refused.Load(), took)
				}
				if g.answerBudget.Held() != 0 || g.requestSlots.Held() != 0 {
					t.Errorf("%d bytes and %d places are left", g.answerBudget.Held(), g.requestSlots.Held())
				}
			})
		})
	}
}

// TestSlowReader: an answer that is read slowly ends, however fast its parts are.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		g, paths := visitsOf(t, 64<<20, size, "a")
		w := &slowWriter{stuckWriter: stuckWriter{ResponseRecorder: httptest.NewRecorder()}}
		began := time.Now()
		g.ServeHTTP(w, getAs(t, "a", paths["a"]["items"]))
		if took := time.Since(began); took > maxReadTime+WriteTimeout || w.read >= size || w.read < size/4 {
			t.Errorf("%d bytes were read in %s", w.read, took)
		}
	})
}

// TestPlaces: a user cannot take all places of requests that need no turn.
func TestPlaces(t *testing.T) {
	g, paths := visitsOf(t, 64<<20, 10, "a", "b")
	g.requestSlots = claims.NewBudget(8, 1, g.crowd)
	for got := 0; ; got++ {
		if apiErr := g.claimRequestSlot(&exchange{user: "a"}); apiErr != nil {
			if got != 4 || apiErr.Code != apierror.CodeQueueFull {
				t.Errorf("%d places, %v", got, apiErr)
			}
			break
		}
	}
	for user, want := range map[string]int{"a": http.StatusTooManyRequests, "b": http.StatusOK} {
		if w := answerTo(g, getAs(t, user, paths[user]["response"])); w.Code != want {
			t.Errorf("%s: %d, %s", user, w.Code, w.Body)
		}
	}
}

// TestPlan: a request gets the limits of the plan that would serve a turn, and holds no app-server after it.
func TestPlan(t *testing.T) {
	u := newFakeUpstream(t, fakecodex.Options{})
	g := newGateway(u, Options{MaxConcurrent: 1})
	for want, limits := range map[string]*codexrpc.RateLimits{`"plan_type":"unknown"`: nil, `"plan_type":"pro"`: {Plan: "pro"}} {
		u.limits = limits
		w := answerTo(g, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/backend-api/wham/usage", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if leases, turns := u.leases.Load(), u.turns.Load(); leases+turns != 0 {
		t.Errorf("%d leases and %d turns are left", leases, turns)
	}
}
