package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// outage is a way in which the back end of a plan fails for all that models are asked by.
type outage struct {
	fault planbackend.Fault
	kinds []planbackend.Kind
	code  string // of the error that clients get
	most  int    // calls by which one request asks the model
}

var asking = []planbackend.Kind{planbackend.Responses, planbackend.Socket}

// A turn asks over a WebSocket and then over HTTP. If the failure may pass, the turn is repeated over HTTP.
const once, repeated = 2, 3

var outages = map[string]outage{
	"500":       {planbackend.Status(500), asking, "upstream_error", repeated},
	"503":       {planbackend.Status(503), asking, "server_overloaded", repeated},
	"a page":    {planbackend.HTML(403), asking, "codex_forbidden", once},
	"429":       {planbackend.Status(429), asking, "rate_limit_exceeded", once},
	"429 until": {planbackend.Status(429).RetryAfter(limit), asking, "rate_limit_exceeded", once},
	"no one":    {planbackend.Down(), []planbackend.Kind{planbackend.All}, "upstream_disconnected", 0},
	"a cut":     {planbackend.Down(), asking, "upstream_disconnected", repeated},
	"not found": {planbackend.Status(404), asking, "model_not_found", once},
}

const (
	// limit is how long the back end wants to be left alone.
	limit = 30 * time.Second
	// soon bounds a request that waits for nothing too long, also on a busy machine. Codex by itself
	// would wait for the limit, or 15 s for the handshake of a WebSocket.
	soon = 14 * time.Second
)

// modelCalls returns the calls since a time by which turns asked the model. The WebSockets that spare
// threads open meanwhile are not among them: how many there are depends on the speed of the machine.
func modelCalls(s *e2e.Site, since time.Time) (calls []planbackend.Call) {
	for _, call := range s.Plan.Calls(planbackend.All) {
		metadata := call.Header.Get("X-Codex-Turn-Metadata")
		if slices.Contains(asking, call.Kind) && !call.At.Before(since) && gjson.Get(metadata, "request_kind").Str == "turn" {
			calls = append(calls, call)
		}
	}
	return calls
}

// socketsOf returns how many WebSockets the threads of some calls have tried, also in advance.
func socketsOf(s *e2e.Site, calls []planbackend.Call) (n int) {
	for _, socket := range s.Plan.Calls(planbackend.Socket) {
		if slices.ContainsFunc(calls, func(call planbackend.Call) bool {
			return call.Header.Get("Thread-Id") == socket.Header.Get("Thread-Id")
		}) {
			n++
		}
	}
	return n
}

// checkRetryAfter checks that a client is told the limit, less the time that its request took.
func checkRetryAfter(t *testing.T, response *http.Response, took time.Duration) {
	t.Helper()
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if wait := time.Duration(after) * time.Second; err != nil || wait > limit || wait <= limit-took-time.Second {
		t.Errorf("Retry-After is %q after %s", response.Header.Get("Retry-After"), took)
	}
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
			for _, kind := range o.kinds {
				s.Plan.Fail(kind, o.fault)
			}
			if o.kinds[0] != planbackend.All {
				s.Plan.Cut() // kept connections
			}
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took := time.Since(began)
			calls := len(modelCalls(s, began))
			t.Logf("%s over %s: %s after %.2f s with %d calls", name, e2e.Transport, response.Status, took.Seconds(), calls)
			if name == "429 until" {
				checkRetryAfter(t, response, took)
			}
			if !strings.Contains(text, `"`+o.code+`"`) || calls < min(o.most, 1) || calls > o.most || took > soon {
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
			if response.StatusCode != c.status || took > soon || name != "cut" && calls != c.calls {
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
	for name, fault := range map[string]planbackend.Fault{"silent": planbackend.Silent(), "refused": planbackend.Status(403)} {
		s := e2e.NewSite(t, "")
		s.Plan.Fail(planbackend.Socket, fault)
		for i, most := range []int{2, 0, 0} { // WebSockets: one in advance and, since it fails, that of the turn
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, map[string]any{"seed": i}), nil)
			took, calls := time.Since(began), modelCalls(s, began)
			tried := socketsOf(s, calls)
			t.Logf("%s: request %d took %.2f s, with %d WebSockets", name, i+1, took.Seconds(), tried)
			if response.StatusCode != http.StatusOK || len(calls) == 0 || tried > most || took > soon {
				t.Errorf("%s: %s %s after %s with %d calls and %d WebSockets", name, response.Status, text, took, len(calls), tried)
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
			prompt, began := fmt.Sprintf("http:%d 30", status), time.Now()
			response, text := s.Post(e2e.ChatBody(prompt, nil), nil)
			took := time.Since(began)
			checkRetryAfter(t, response, took)
			if response.StatusCode != status || took > soon {
				t.Errorf("%s: %s %s after %s", prompt, response.Status, text, took)
			}
		}
	})
}
