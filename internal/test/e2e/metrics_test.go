package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// samples returns all metrics of a site by name and labels.
func (s *site) samples() map[string]float64 {
	s.t.Helper()
	status, text := s.get("/metrics")
	if status != http.StatusOK {
		s.t.Fatal(status, text)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		// Values of labels may have spaces, but these have none.
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	return values
}

// measured holds what the requests of a round add to the metrics.
var measured = map[string]float64{
	`codex_requests_total{route="chat",status="200"}`:      3,
	`codex_requests_total{route="chat",status="400"}`:      1,
	`codex_requests_total{route="chat",status="500"}`:      1,
	`codex_requests_total{route="responses",status="200"}`: 1,
	`codex_requests_total{route="unknown",status="404"}`:   1,
	`codex_request_errors_total{code="unknown_url"}`:       1,
	`codex_request_errors_total{code="upstream_error"}`:    1,
	`gen_ai_server_request_duration_seconds_count{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="KNOWN"}`:               3,
	`gen_ai_server_request_duration_seconds_count{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="other"}`:               1,
	`gen_ai_server_request_duration_seconds_count{error_type="upstream_error",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="other"}`: 1,
	`gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="KNOWN"}`:                          3,
	`gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="KNOWN",gen_ai_token_type="input"}`:                3,
	`gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="KNOWN",gen_ai_token_type="output"}`:               3,
	`codex_streams_active`: 0,
	`codex_answers_active`: 0,
	`codex_turns_running`:  0,
}

// measuredTurn matches the turn of TestMetrics that is a response. The user is the site's.
var measuredTurn = regexp.MustCompile(`"request_id":"measured-response","user":"@[^"]*","choice":0,"route":"responses"`)

// TestMetrics checks the metrics of requests and turns, that clients cannot make up
// labels, and that counts survive a reload.
func TestMetrics(t *testing.T) {
	s := newSite(t, "")
	s.load(s.withMetrics(""))
	s.waitReady()
	model := s.models()[0]
	waitFor(t, "the models to be known", func() bool {
		s.post(chatBody("say:hello", map[string]any{"model": model}), nil)
		for name := range s.samples() {
			if strings.Contains(name, `gen_ai_request_model="`+model+`"`) {
				return true
			}
		}
		return false
	})
	before := s.samples()
	for round := 1.0; round <= 2; round++ {
		for i := range 2 {
			s.post(chatBody("say:hello", map[string]any{"model": model, "stream": i == 0}), nil)
		}
		s.post(chatBody("say:hello", map[string]any{"model": "made-up by a client"}), nil)
		s.post("{bad", nil)
		s.post(chatBody("http:500", map[string]any{"model": "made-up by a client"}), nil)
		s.get("/v1/made-up")
		header := http.Header{"X-Request-Id": {"measured-response"}}
		s.read(s.do(http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"`+model+`","input":"say:hello"}`), header))
		after := s.samples()
		for name, n := range measured {
			name = strings.ReplaceAll(name, "KNOWN", model)
			if grown := after[name] - before[name]; grown != round*n {
				t.Errorf("round %v: %s has grown by %v, want %v", round, name, grown, round*n)
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
		if raw, _ := s.usageAs(nil); !measuredTurn.MatchString(raw) {
			t.Error("the response is not among the turns:", raw)
		}
		s.load(s.withMetrics("keepalive 20s"))
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

// TestActiveStreams checks that the metrics count running streams, also those of the
// previous configuration.
func TestActiveStreams(t *testing.T) {
	s := newSite(t, "")
	s.load(s.withMetrics(""))
	s.waitReady()
	var wg sync.WaitGroup
	ctx, leave := contextFor(t)
	for i := range 3 {
		wg.Go(func() { s.postUntil(ctx, chatBody("say:Begin; hang", map[string]any{"stream": i > 0}), nil) })
	}
	active := func() bool {
		got := s.samples()
		return got["codex_streams_active"] == 2 && got["codex_answers_active"] == 3
	}
	waitFor(t, "the answers", active)
	if got := s.samples()["codex_turns_running"]; got != 3 {
		t.Errorf("%v turns run", got)
	}
	s.load(s.withMetrics("keepalive 20s"))
	waitFor(t, "the answers after a reload", active)
	leave()
	wg.Wait()
	waitFor(t, "the end of the answers", func() bool {
		got := s.samples()
		return got["codex_streams_active"] == 0 && got["codex_answers_active"] == 0
	})
}

// TestMetricsOfTwoSites checks that the requests of two sites are counted together,
// once.
func TestMetricsOfTwoSites(t *testing.T) {
	s := newSite(t, "")
	other := &site{t: t, addr: freeAddr(t)}
	other.url = "http://" + other.addr
	s.load(s.withMetrics("") + other.url + " {\ncodex {\n" + s.appServer() + "\n}\n}\n")
	s.waitReady()
	const name = `codex_requests_total{route="chat",status="200"}`
	before := s.samples()[name]
	for _, site := range []*site{s, other} {
		if response, text := site.post(chatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, text)
		}
	}
	after := s.samples()
	if grown := after[name] - before; grown != 2 {
		t.Errorf("%v requests were counted", grown)
	}
	if n := stateOf(after, "ready"); n != 1 {
		t.Errorf("%v app-servers are ready", n)
	}
}
