package operations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

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
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		s.T.Fatal(err)
	}
	for _, turn := range list.Data {
		if turn.RequestID == id {
			turns = append(turns, turn)
		}
	}
	return turns
}

// TestPrice checks that the price which a provider tells is in the usage and in the metrics: of all
// responses of a turn, and nothing if none is told.
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
