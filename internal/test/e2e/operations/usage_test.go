package operations

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// usageBody is the body of /v1/usage with the members that tests read.
type usageBody struct {
	Since    int64
	Started  int64
	Requests int
	Usage    struct {
		Prompt int   `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	}
	ByModel []struct {
		Model    string
		Requests int
	} `json:"by_model"`
}

func usage(r *e2e.Running) usageBody {
	r.T.Helper()
	return usageOf(r, e2e.SecretKey)
}

// usageOf returns the usage of a key's user.
func usageOf(r *e2e.Running, key string) (u usageBody) {
	r.T.Helper()
	response := r.Do(http.MethodGet, "/v1/usage", nil, e2e.Bearer(key))
	text := r.Read(response)
	if err := json.Unmarshal([]byte(text), &u); err != nil || response.StatusCode != http.StatusOK {
		r.T.Fatal(response.Status, text, err)
	}
	return u
}

// used returns what a key has used of its limit of a unit, by /v1/usage.
func used(r *e2e.Running, key, unit string) int64 {
	r.T.Helper()
	var usage struct {
		Keys []struct {
			Limits []struct {
				Unit string
				Used int64
			}
		}
	}
	response := r.Do(http.MethodGet, "/v1/usage", nil, e2e.Bearer(key))
	if text := r.Read(response); json.Unmarshal([]byte(text), &usage) != nil || response.StatusCode != http.StatusOK {
		r.T.Fatal(response.Status, text)
	}
	for _, k := range usage.Keys {
		for _, l := range k.Limits {
			if l.Unit == unit {
				return l.Used
			}
		}
	}
	return -1
}

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
	var got usageBody
	e2e.WaitFor(t, "the usage of before", func() bool { got = usage(r); return got.Requests > 0 })
	if got.Requests != 1 {
		t.Errorf("%+v", got)
	}
}

// TestUsageOverRestarts checks that the counts survive reloads and restarts and are not
// counted twice, and that the log has neither keys nor content.
func TestUsageOverRestarts(t *testing.T) {
	r := run(t)
	var first usageBody
	for round := 1; round <= 3; round++ {
		e2e.WaitFor(t, "what was stored", func() bool { return usage(r).Requests == 3*(round-1) })
		for range 2 {
			if response, text := r.Post(e2e.ChatBody("say:PRIVATE-ANSWER", nil), e2e.Bearer(e2e.SecretKey)); response.StatusCode != http.StatusOK {
				t.Fatal(response.Status, text)
			}
		}
		r.Post("{PRIVATE-BAD", e2e.Bearer(e2e.SecretKey)) // counts, but for no model
		got := usage(r)
		if round == 1 {
			first = got
		}
		if got.Requests != 3*round || got.Usage.Prompt != round*first.Usage.Prompt || got.Usage.Prompt == 0 || got.Since != first.Since ||
			len(got.ByModel) != 1 || got.ByModel[0].Requests != 2*round {
			t.Errorf("round %d: %+v, at first %+v", round, got, first)
		}
		r.End()
		r.Start()
	}
	r.End()
	stored, err := os.ReadFile(filepath.Join(r.Dir, "caddy", "codex", "usage.json"))
	must.OK(t, err)
	for name, text := range map[string]string{"log": r.Log.String(), "storage": string(stored)} {
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
			file := newKeyFile(t, map[string]string{c.key: "requests 1000 24h\ntokens 1000000 24h"})
			s := e2e.NewUnstarted(t)
			r := s.RunFile(s.Caddyfile("drain_timeout 1s\napi_keys_file " + file.path + "\nstore " + c.store))
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
				var got usageBody
				e2e.WaitFor(t, "the usage and the tokens of before", func() bool {
					got = usageOf(r, c.key)
					return got.Requests > 0 && used(r, c.key, "tokens") == got.Usage.Total
				})
				if got.Requests != 1 || got.Usage.Total == 0 || used(r, c.key, "requests") != 1 {
					t.Errorf("%+v, %d requests", got, used(r, c.key, "requests"))
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
