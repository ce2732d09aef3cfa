package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// limitedGateway returns a gateway whose requests all have one key.
func limitedGateway(t *testing.T, u conversation.Upstream, key *quota.Key) *Gateway {
	t.Helper()
	return newGateway(u, Options{
		MaxConcurrent: 8, MaxQueue: 100, QueueWait: patience,
		Key:    func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil },
		Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, false),
	})
}

func hourly(t *testing.T, unit quota.Unit, n int64) quota.Limit {
	t.Helper()
	w, err := quota.ParseWindow("1h")
	must.OK(t, err)
	return quota.Limit{Unit: unit, Max: n, Window: w}
}

// TestKeyLimitsHold sends requests of every kind at once, of which some clients leave. The
// use never exceeds a limit, and nothing is held in the end.
func TestKeyLimitsHold(t *testing.T) {
	const requests, limit, places = 80, 60_000, 5
	key := &quota.Key{ID: "k", Account: "k", MaxConcurrent: places, Limits: []quota.Limit{hourly(t, quota.Requests, requests), hourly(t, quota.Tokens, limit)}}
	g := limitedGateway(t, talkative(t, 6), key)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 4))
			for range 12 {
				anyRequest(t, g, r)
			}
		})
	}
	all.Wait()
	states := g.opts.Limits.States(t.Context(), []*quota.Key{key})[0]
	if states[0].Used > requests || states[1].Used > limit || states[1].Used == 0 {
		t.Errorf("%+v", states)
	}
	request, err := g.opts.Limits.Begin(&quota.Key{Account: "k", MaxConcurrent: places})
	must.OK(t, err)
	grants, err := request.Acquire(places)
	if err != nil {
		t.Error("turns that have ended hold places:", err)
	}
	for _, grant := range grants {
		grant.Close(0)
	}
}

// anyRequest sends a random request, which its client may leave.
func anyRequest(t *testing.T, g *Gateway, r *rand.Rand) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if r.IntN(4) == 0 {
		time.AfterFunc(time.Duration(r.IntN(20))*time.Millisecond, leave)
	}
	stream := r.IntN(2) == 0
	body, serve := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":%t,"n":%d}`, stream, 1+r.IntN(2)), g.Chat
	switch r.IntN(4) {
	case 0:
		body, serve = fmt.Sprintf(`{"model":"m","store":false,"input":"x","stream":%t}`, stream), g.Responses
	case 1:
		body, serve = `{"model":"m","input":"x"}`, g.InputTokens
	}
	w := httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }() // an answer that was cut
		serve(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
	}()
}

// TestKeyLimitsAtOnce checks that the place and the tokens of a turn are free before its
// client learns of the end: the next request of a client with one place always succeeds.
func TestKeyLimitsAtOnce(t *testing.T) {
	key := &quota.Key{ID: "k", Account: "k", MaxConcurrent: 1, Limits: []quota.Limit{hourly(t, quota.Tokens, 400_000)}}
	g := limitedGateway(t, talkative(t, 2), key)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/responses") {
			g.Responses(w, r)
		} else {
			g.Chat(w, r)
		}
	}))
	defer server.Close()
	for i := range 120 {
		path, body := "/chat", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":%t}`, i%2 == 0)
		switch i % 5 {
		case 3:
			path, body = "/responses", fmt.Sprintf(`{"model":"m","store":false,"input":"x","stream":%t}`, i%2 == 0)
		case 4:
			body = `{"model":"m","messages":[{"role":"user","content":"x"}],"n":0}`
		}
		response, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
		must.OK(t, err)
		var last strings.Builder
		buffer := make([]byte, 4096)
		for n := 0; err == nil; {
			n, err = response.Body.Read(buffer)
			last.Write(buffer[:n])
			if text := last.String(); strings.Contains(text, "[DONE]") || strings.Contains(text, "event: response.completed") {
				break // as a client does, before the connection has ended
			}
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			t.Fatalf("request %d: %s", i, last.String())
		}
	}
}
