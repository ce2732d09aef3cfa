package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/reqbody"
)

// TestCountEndsWithClient checks that a count ends at its next pause once its client has gone, and
// leaves nothing behind.
func TestCountEndsWithClient(t *testing.T) {
	g := newGateway(nil, Options{MaxConcurrent: 1})
	ctx, leave := context.WithCancel(t.Context())
	x := g.newExchange(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	body := g.bodies.Claim("a")
	x.releaseOnClose(body)
	pauses := 0
	_, apiErr := g.countTokens(x, body, func(pause func() error) (int, error) {
		for {
			if pauses++; pauses == 3 {
				leave()
			}
			if err := pause(); err != nil {
				return 0, err
			}
		}
	})
	if apiErr == nil || pauses != 3 {
		t.Errorf("%v after %d pauses", apiErr, pauses)
	}
	if n, apiErr := g.countTokens(x, body, func(func() error) (int, error) { return 0, errors.New("any") }); apiErr == nil {
		t.Errorf("%d tokens in spite of an error", n)
	}
	if x.close(); g.BodyMemory() != 0 {
		t.Errorf("%d bytes are left", g.BodyMemory())
	}
}

// TestLongCount checks that what is decoded for a long count needs memory.
func TestLongCount(t *testing.T) {
	u := talkative(t, 1)
	body := `{"model":"m","input":"` + strings.Repeat("word ", 40_000) + `"}`
	for memory, want := range map[int64]int{2 << 20: http.StatusOK, 1<<20 + 300<<10: http.StatusServiceUnavailable} {
		g := newGateway(u, Options{MaxConcurrent: 1})
		g.bodies = reqbody.NewPool(memory, 1<<20, g.crowd)
		w := httptest.NewRecorder()
		g.InputTokens(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != want || want == http.StatusOK && !strings.Contains(w.Body.String(), `"input_tokens":40`) {
			t.Errorf("with %d bytes: %d %s", memory, w.Code, w.Body)
		}
		if g.BodyMemory() != 0 || g.queue.Running() != 0 || g.requestSlots.Held() != 0 || g.answerBudget.Held() != 0 {
			t.Errorf("with %d bytes: something is left", memory)
		}
	}
}
