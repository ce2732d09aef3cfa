package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// outage is a way in which the back end of a plan fails for all that models are asked by.
type outage struct {
	fault planbackend.Fault
	kinds []planbackend.Kind
	code  string // of the error that clients get
	most  int    // calls of the back end for one request
}

var asking = []planbackend.Kind{planbackend.Responses, planbackend.Socket}

var outages = map[string]outage{
	"500":       {planbackend.Status(500), asking, "upstream_error", 5},
	"503":       {planbackend.Status(503), asking, "server_overloaded", 5},
	"a page":    {planbackend.HTML(403), asking, "codex_forbidden", 5},
	"429":       {planbackend.Status(429), asking, "rate_limit_exceeded", 5},
	"429 until": {planbackend.Status(429).RetryAfter(30 * time.Second), asking, "rate_limit_exceeded", 5},
	"no one":    {planbackend.Down(), []planbackend.Kind{planbackend.All}, "upstream_disconnected", 5},
	"a cut":     {planbackend.Down(), asking, "upstream_disconnected", 5},
	"not found": {planbackend.Status(404), asking, "model_not_found", 5},
}

// TestProviderFails checks that a request is told within seconds, and with few attempts, what
// is wrong with the model's provider, and that requests are served again once that answers.
func TestProviderFails(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for name, o := range outages {
			for i := range 3 {
				if response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"seed": i}), nil); response.StatusCode != http.StatusOK {
					t.Errorf("before %s: %s %s", name, response.Status, text)
				}
			}
			before := s.Plan.Count(planbackend.Responses) + s.Plan.Count(planbackend.Socket)
			for _, kind := range o.kinds {
				s.Plan.Fail(kind, o.fault)
			}
			if o.kinds[0] != planbackend.All {
				s.Plan.Cut() // kept connections
			}
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took := time.Since(began)
			calls := s.Plan.Count(planbackend.Responses) + s.Plan.Count(planbackend.Socket) - before
			t.Logf("%s over %s: %s after %.2f s with %d calls", name, e2e.Transport, response.Status, took.Seconds(), calls)
			if after := response.Header.Get("Retry-After"); name == "429 until" && after != "30" && after != "29" {
				t.Errorf("%s: Retry-After is %q", name, after)
			}
			if !strings.Contains(text, `"`+o.code+`"`) || calls > o.most || took > 10*time.Second {
				t.Errorf("%s: %s %s after %s with %d calls", name, response.Status, text, took, calls)
			}
			s.Plan.Heal()
		}
	})
}

// TestProviderStumbles checks that a failure before an answer has begun is bridged, and that a
// limit of the rate is not asked again.
func TestProviderStumbles(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for name, c := range map[string]struct {
			fault  planbackend.Fault
			status int
			calls  int // over HTTP
		}{
			"500": {planbackend.Status(500), http.StatusOK, 2},
			"503": {planbackend.Status(503).RetryAfter(30 * time.Second), http.StatusOK, 2},
			"cut": {planbackend.Down(), http.StatusOK, 2},
			"429": {planbackend.Status(429), http.StatusTooManyRequests, 1},
		} {
			s.Plan.Fail(planbackend.Socket, planbackend.Status(500))
			s.Plan.Fail(planbackend.Responses, c.fault.For(1))
			s.Plan.Cut()
			before, began := s.Plan.Count(planbackend.Responses), time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took, calls := time.Since(began), s.Plan.Count(planbackend.Responses)-before
			if response.StatusCode != c.status || took > 5*time.Second || name != "cut" && calls != c.calls {
				t.Errorf("%s: %s %s after %s with %d calls", name, response.Status, text, took, calls)
			}
			s.Plan.Heal()
		}
	})
}

// TestSilentWebSocket checks that a WebSocket to the provider which nobody answers, or which is
// refused, costs the first request some seconds at most, and that others do not wait for it.
func TestSilentWebSocket(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, "websocket")
	for name, c := range map[string]struct {
		fault planbackend.Fault
		most  time.Duration
	}{
		"silent":  {planbackend.Silent(), 9 * time.Second}, // twice the time that it has, and the answer
		"refused": {planbackend.Status(403), 3 * time.Second},
	} {
		s := e2e.NewSite(t, "")
		s.Plan.Fail(planbackend.Socket, c.fault)
		for i := range 3 {
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, map[string]any{"seed": i}), nil)
			took := time.Since(began)
			t.Logf("%s: request %d took %.2f s", name, i+1, took.Seconds())
			if response.StatusCode != http.StatusOK || i == 0 && took > c.most || i > 0 && took > 2*time.Second {
				t.Errorf("%s: %s %s after %s", name, response.Status, text, took)
			}
		}
		if n := s.Plan.Count(planbackend.Socket); n > 3 {
			t.Errorf("%s: %d WebSockets were tried", name, n)
		}
	}
}

// TestLimitedRequests checks that a request which the provider refuses for a while is told so at once,
// also where a message on a WebSocket says it: Codex would wait for that while.
func TestLimitedRequests(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		const limited, overloaded = http.StatusTooManyRequests, http.StatusServiceUnavailable
		// Each within a second of the one before, whose limit is not its own.
		for _, status := range []int{limited, overloaded, limited} {
			prompt, began := fmt.Sprintf("http:%d 40", status), time.Now()
			response, text := s.Post(e2e.ChatBody(prompt, nil), nil)
			if after := response.Header.Get("Retry-After"); response.StatusCode != status || after != "40" && after != "39" {
				t.Errorf("%s: %s with Retry-After %q: %s", prompt, response.Status, after, text)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s: it took %s", prompt, took)
			}
		}
	})
}
