package operations

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// measured holds what the requests of TestMetrics add to the metrics.
var measured = map[string]float64{
	`codex_requests_total{route="chat",status="200"}`:                                 3,
	`codex_requests_total{route="chat",status="500"}`:                                 1,
	`codex_requests_total{route="responses",status="200"}`:                            1,
	`codex_request_errors_total{code="upstream_error"}`:                               1,
	`gen_ai_server_request_duration_seconds_count{error_type="",KNOWN}`:               3,
	`gen_ai_server_request_duration_seconds_count{error_type="",OTHER}`:               1,
	`gen_ai_server_time_to_first_token_seconds_count{KNOWN}`:                          3,
	`gen_ai_client_token_usage_count{KNOWN,gen_ai_token_type="output"}`:               3,
	`gen_ai_server_request_duration_seconds_count{error_type="upstream_error",OTHER}`: 1,
	`codex_streams_active`: 0,
	`codex_answers_active`: 0,
	`codex_turns_running`:  0,
}

// measuredTurn matches the turn of TestMetrics that is a response. The user is the site's.
var measuredTurn = regexp.MustCompile(`"request_id":"measured-response","user":"@[^"]*","choice":0,"route":"responses"`)

// TestMetrics: requests of two sites with one app-server are counted together, once. Models have a
// label if Codex lists them. A reload keeps the counts.
func TestMetrics(t *testing.T) {
	s := e2e.NewSite(t, "")
	other := s.Node()
	s.Load(s.WithMetrics("") + other.URL + " {\ncodex {\n" + s.AppServer() + "\n}\n}\n")
	s.WaitReady()
	model := s.Models()[0]
	e2e.WaitFor(t, "the models to be known", func() bool {
		s.Post(e2e.ChatBody("say:hello", map[string]any{"model": model}), nil)
		for name := range s.Samples() {
			if strings.Contains(name, `gen_ai_request_model="`+model+`"`) {
				return true
			}
		}
		return false
	})
	before := s.Samples()
	s.Post(e2e.ChatBody("say:hello", map[string]any{"model": model, "stream": true}), nil)
	other.Post(e2e.ChatBody("say:hello", map[string]any{"model": model}), nil)
	s.Post(e2e.ChatBody("say:hello", map[string]any{"model": "made-up by a client"}), nil)
	s.Post(e2e.ChatBody("http:500", map[string]any{"model": "made-up by a client"}), nil)
	header := http.Header{"X-Request-Id": {"measured-response"}}
	s.Read(s.Do(http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"`+model+`","input":"say:hello"}`), header))
	s.Load(s.WithMetrics("keepalive 20s"))
	after := s.Samples()
	const common = `gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model=`
	labels := strings.NewReplacer("KNOWN", common+`"`+model+`"`, "OTHER", common+`"other"`)
	for name, n := range measured {
		name = labels.Replace(name)
		if grown := after[name] - before[name]; grown != n {
			t.Errorf("%s has grown by %v, want %v", name, grown, n)
		}
	}
	if n := stateOf(after, "ready"); n != 1 {
		t.Errorf("%v app-servers are ready", n)
	}
	for name := range after {
		if strings.Contains(name, "made-up") {
			t.Error("a label is the client's:", name)
		}
	}
	if raw, _ := usageAs(s, nil); !measuredTurn.MatchString(raw) {
		t.Error("the response is not among the turns:", raw)
	}
}

// stateOf returns the number of app-servers in a state.
func stateOf(samples map[string]float64, state string) (n float64) {
	for name, value := range samples {
		if strings.HasPrefix(name, "codex_app_server_state{") && strings.Contains(name, `state="`+state+`"`) {
			n += value
		}
	}
	return n
}

// TestActiveStreams: the metrics count running streams, also of the previous configuration.
func TestActiveStreams(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.WithMetrics(""))
	s.WaitReady()
	var wg sync.WaitGroup
	ctx, leave := e2e.ContextWithCancel(t)
	for i := range 3 {
		wg.Go(func() { s.PostUntil(ctx, e2e.ChatBody("say:Begin; hang", map[string]any{"stream": i > 0}), nil) })
	}
	active := func() bool {
		got := s.Samples()
		return got["codex_streams_active"] == 2 && got["codex_answers_active"] == 3
	}
	e2e.WaitFor(t, "the answers", active)
	if got := s.Samples()["codex_turns_running"]; got != 3 {
		t.Errorf("%v turns run", got)
	}
	s.Load(s.WithMetrics("keepalive 20s"))
	e2e.WaitFor(t, "the answers after a reload", active)
	leave()
	wg.Wait()
	e2e.WaitFor(t, "the end of the answers", func() bool {
		got := s.Samples()
		return got["codex_streams_active"] == 0 && got["codex_answers_active"] == 0
	})
}
