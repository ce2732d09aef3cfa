package operations

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// collector receives the spans that Caddy exports.
type collector struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// has reports whether all texts are in what was received. In protobuf, texts are there as
// they are.
func (c *collector) has(texts ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range texts {
		if !strings.Contains(c.text.String(), text) {
			return false
		}
	}
	return true
}

// TestTraces checks that the span of Caddy's tracing has the attributes of a turn, and
// nothing that was said, and that Caddy's `metrics { otlp }` exports this module's metrics.
func TestTraces(t *testing.T) {
	var spans collector
	server := httptest.NewServer(&spans)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
	s := e2e.NewSite(t, "")
	config := s.Wrap("tracing {\nspan codex\n}\ncodex {\n" + s.AppServer() + "\nmodel fast gpt-5\n}")
	s.Load(strings.Replace(config, "admin off", "admin off\nmetrics {\notlp\n}", 1))
	s.WaitReady()
	for _, stream := range []bool{false, true} {
		response, text := s.Post(e2e.ChatBody("say:PRIVATE-ANSWER", map[string]any{"model": "fast", "stream": stream}), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, "PRIVATE-ANSWER") {
			t.Errorf("%d %s", response.StatusCode, text)
		}
	}
	e2e.WaitFor(t, "the spans", func() bool {
		return spans.has("gen_ai.request.model", "fast", "gen_ai.response.model", "gpt-5", "gen_ai.response.finish_reasons", "stop",
			"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
	})
	response, text := s.Post(e2e.ChatBody("say:x", map[string]any{"model": 5}), nil)
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	e2e.WaitFor(t, "the error", func() bool { return spans.has("error.type", "invalid_type") })
	e2e.WaitFor(t, "the metrics", func() bool { return spans.has("codex_requests_total", "gen_ai_server_request_duration_seconds") })
	if spans.has("PRIVATE-ANSWER") {
		t.Error("the trace has what was said")
	}
}
