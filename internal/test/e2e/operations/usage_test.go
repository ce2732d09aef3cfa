package operations

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/tidwall/gjson"
)

// TestExitKeepsTheLastTurns: a turn that ends with the server is in the log and in the usage.
func TestExitKeepsTheLastTurns(t *testing.T) {
	r := runWith(t, "drain_timeout 300ms")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	response := r.Hanging(ctx)
	defer response.Body.Close()
	r.End()
	if log := r.Log.String(); strings.Count(log, `"msg":"turn"`) != 1 || !strings.Contains(log, `"code":"server_shutting_down"`) {
		t.Errorf("the turn is not in the log: %s", log)
	}
	r.Start()
	e2e.WaitFor(t, "the usage of before", func() bool { return r.Usage(e2e.SecretKey).Get("requests").Int() > 0 })
	if got := r.Usage(e2e.SecretKey); got.Get("requests").Int() != 1 {
		t.Error(got)
	}
}

// TestUsageOverRestarts checks that the counts survive reloads and restarts and are not
// counted twice, and that the log has neither keys nor content.
func TestUsageOverRestarts(t *testing.T) {
	r := run(t)
	var first gjson.Result
	for round := int64(1); round <= 3; round++ {
		e2e.WaitFor(t, "what was stored", func() bool { return r.Usage(e2e.SecretKey).Get("requests").Int() == 3*(round-1) })
		for range 2 {
			if response, text := r.Post(e2e.ChatBody("say:PRIVATE-ANSWER", nil), e2e.Bearer(e2e.SecretKey)); response.StatusCode != http.StatusOK {
				t.Fatal(response.Status, text)
			}
		}
		r.Post("{PRIVATE-BAD", e2e.Bearer(e2e.SecretKey)) // counts, but for no model
		got := r.Usage(e2e.SecretKey)
		if round == 1 {
			first = got
		}
		tokens := got.Get("usage.prompt_tokens").Int()
		if got.Get("requests").Int() != 3*round || tokens != round*first.Get("usage.prompt_tokens").Int() || tokens == 0 || got.Get("since").Raw != first.Get("since").Raw ||
			got.Get("by_model.#").Int() != 1 || got.Get("by_model.0.requests").Int() != 2*round {
			t.Errorf("round %d: %s, at first %s", round, got, first)
		}
		r.End()
		r.Start()
	}
	r.End()
	stored := filepath.Join(r.Dir, "caddy", "codex", "usage.json")
	for name, text := range map[string]string{"log": r.Log.String(), "storage": e2e.ReadFile(t, stored)} {
		for _, secret := range []string{e2e.SecretKey, "PRIVATE"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s", secret, name)
			}
		}
	}
}

// TestExitCountsBackground checks that a background response which ends while Caddy exits is counted
// once, in files and in Redis. If Redis fails then, the log says that it is not counted.
func TestExitCountsBackground(t *testing.T) {
	server := redisserver.Start(t)
	for name, c := range map[string]struct{ store, key string }{
		"files":       {"memory", "sk-files"},
		"Redis":       {"redis " + server.URL("1"), "sk-redis"},
		"Redis fails": {"redis " + server.URL("2"), "sk-outage"},
	} {
		t.Run(name, func(t *testing.T) {
			file := e2e.NewKeyFile(t, map[string]string{c.key: "requests 1000 24h\ntokens 1000000 24h"})
			s := e2e.NewUnstarted(t)
			r := s.RunFile(s.Caddyfile("drain_timeout 1s\napi_keys_file " + file.Path + "\nstore " + c.store))
			r.WaitUp()
			request := e2e.Asks("say:Half; hang", e2e.Fields{"background": true, "stream": true})
			response := r.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(request)), e2e.Bearer(c.key))
			e2e.ReadUntil(t, response.Body, "Half")
			must.OK(t, response.Body.Close())
			if name == "Redis fails" {
				server.Kill()
			}
			r.End()
			if name == "Redis fails" {
				server.Restart()
				if log := r.Log.String(); strings.Count(log, "what Redis could not count is lost") != 1 || !strings.Contains(log, `"turns":1,`) {
					t.Error(log)
				}
				return
			}
			for range 2 { // the second start has nothing to add
				r.Start()
				var got gjson.Result
				e2e.WaitFor(t, "the usage and the tokens of before", func() bool {
					got = r.Usage(c.key)
					return got.Get("requests").Int() > 0 && r.Used(c.key, "tokens") == got.Get("usage.total_tokens").Int()
				})
				if got.Get("requests").Int() != 1 || got.Get("usage.total_tokens").Int() == 0 || r.Used(c.key, "requests") != 1 {
					t.Errorf("%s, %d requests", got, r.Used(c.key, "requests"))
				}
				r.End()
			}
		})
	}
}

// spent is what is looked at of /v1/usage and of an entry of /v1/usage/raw.
type spent struct {
	RequestID string  `json:"request_id"`
	Price     float64 `json:"price"`
	Estimated bool    `json:"usage_estimated"`
	Usage     struct {
		Input  int `json:"prompt_tokens"`
		Output int `json:"completion_tokens"`
	} `json:"usage"`
}

// spentOn returns the turns with a request id.
func spentOn(s *e2e.Site, id string) (turns []spent) {
	s.T.Helper()
	raw, _ := usageAs(s, nil)
	var list struct{ Data []spent }
	must.OK(s.T, json.Unmarshal([]byte(raw), &list))
	for _, turn := range list.Data {
		if turn.RequestID == id {
			turns = append(turns, turn)
		}
	}
	return turns
}

// TestPrice: the price of all a turn's responses is in usage and metrics, and none if none is told.
func TestPrice(t *testing.T) { e2e.OverBoth(t, testPrice) }

func testPrice(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.WithMetrics(""))
	s.WaitReady()
	sum := func() (sum float64) {
		for name, value := range s.Samples() {
			if strings.HasPrefix(name, "codex_price_total{") {
				sum += value
			}
		}
		return sum
	}
	before := sum()
	for id, c := range map[string]struct {
		prompt string
		want   float64
	}{
		"priced-once":  {"price=0.125; say:ok", 0.125},
		"priced-small": {"price=1e-4; say:ok", 0.0001},
		"not-priced":   {"say:ok", 0},
	} {
		if response, text := s.Post(e2e.ChatBody(c.prompt, nil), http.Header{"X-Request-Id": {id}}); response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, text)
		}
		if turns := spentOn(s, id); len(turns) != 1 || turns[0].Price != c.want || turns[0].Estimated || turns[0].Usage.Input != 123 {
			t.Errorf("%s: %+v", id, turns)
		}
	}
	if got := sum() - before; got < 0.125099 || got > 0.125101 {
		t.Errorf("the metric has grown by %v", got)
	}
}
