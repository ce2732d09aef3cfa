package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// sharingGateway has a key with a share of most, of a plan whose windows hold 5000. Its shares are the limits that
// the key has in them.
func sharingGateway(t *testing.T, most int64) (g *Gateway, w *witness, key *quota.Key, shares []quota.Limit) {
	u, resets := talkative(t, 2), time.Now().Add(2*time.Hour)
	u.login.Learn(&codexrpc.RateLimits{Meters: []codexrpc.Meter{{
		ID: codexrpc.PlanMeter, Primary: &codexrpc.RateWindow{Window: 5 * time.Hour, ResetsAt: resets},
		Secondary: &codexrpc.RateWindow{Window: 7 * 24 * time.Hour, ResetsAt: resets.Add(time.Hour)},
	}}})
	limits := func(windows []usage.PlanWindow) func(*quota.Key) []quota.Limit {
		var limits []quota.Limit
		for _, w := range windows {
			name := fmt.Sprintf("%dh %s %s", w.Length/3600, w.Meter, w.Login)
			limits = append(limits, quota.Limit{Unit: quota.PlanShare, Max: most, Window: quota.PlanWindow(name, time.Unix(w.Resets, 0)), Whole: 5000})
		}
		return func(*quota.Key) []quota.Limit { return limits }
	}
	w, key = new(witness), &quota.Key{ID: "k", Account: "k", PlanShare: 200}
	g = newGateway(u, Options{
		MaxConcurrent: 8, MaxQueue: 100, QueueWait: patience, Ollama: true, Observer: w, PlanLimits: limits,
		Key:    func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil },
		Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, false),
	})
	return g, w, key, limits(usage.PlanWindows("login", u.login.Limits().Meter(""), time.Now()))(key)
}

// TestShareIsRecorded sends requests of every kind, of which some clients leave: what the turns have cost by the
// records of the usage is what counts for the share, in each window.
func TestShareIsRecorded(t *testing.T) {
	g, w, key, shares := sharingGateway(t, 1<<40)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 6))
			for range 12 {
				anyRequest(t, g, r)
			}
		})
	}
	all.Wait()
	want := int64(0)
	for _, turn := range w.turns {
		want += usage.Cost(turn.Usage)
		if turn.Meter != codexrpc.PlanMeter || len(turn.Windows) != 2 || turn.Windows[0].Login != "login" {
			t.Fatalf("%+v", turn)
		}
	}
	states := g.opts.Limits.States(t.Context(), []*quota.Key{key.With(shares)})[0]
	if len(states) != 2 || want == 0 || states[0].Used != want || states[1].Used != want {
		t.Errorf("%d are recorded, and counted: %+v", want, states)
	}
}

// TestShareRefused uses up a share: each API says which window is used up, in its own form, and until when. Requests
// without a turn go on.
func TestShareRefused(t *testing.T) {
	g, w, _, _ := sharingGateway(t, 1000)
	bodies := map[string]string{
		chatPath:       `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		responsesPath:  `{"model":"m","store":false,"input":"x"}`,
		"/v1/messages": `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"x"}]}`,
		"/api/chat":    `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
	}
	for post(g, chatPath, bodies[chatPath]).Code == http.StatusOK {
		if len(w.turns) > 100 {
			t.Fatal("nothing is refused")
		}
	}
	used := 0.0
	for _, turn := range w.turns {
		used += float64(usage.Cost(turn.Usage)) / 50
	}
	want := fmt.Sprintf("the limit is 20%% of the plan's window 168h codex login, used %g%%. Please try again in 3h", used)
	for path, body := range bodies {
		answer := post(g, path, body)
		header := answer.Header()
		if header.Get("Retry-After") != "" || header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %v", path, header)
		}
		if answer.Code != http.StatusTooManyRequests || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, answer.Code, answer.Body, want)
		}
		for name := range header {
			if strings.Contains(name, "Ratelimit") {
				t.Errorf("%s has the header %s", path, name)
			}
		}
	}
	if answer := post(g, "/v1/responses/input_tokens", `{"model":"m","input":"x"}`); answer.Code != http.StatusOK {
		t.Error(answer.Code, answer.Body)
	}
}
