package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// measured returns the values of metrics by their names and labels: of a histogram, these are "count of"
// and "sum of" it.
func measured(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	must.OK(t, err)
	values := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				values["count of "+name], values["sum of "+name] = float64(h.GetSampleCount()), h.GetSampleSum()
			} else {
				values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them
			}
		}
	}
	return values
}

// metrics returns the values of the registry of a configuration.
func (c *configuration) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	return measured(t, c.ctx.GetMetricsRegistry())
}

// Each code is there before its first error, so that an alert notices the first one.
func TestErrorsBeginAtZero(t *testing.T) {
	values := provision(t, new(Handler)).metrics(t)
	for _, code := range apierror.Labels() {
		if _, ok := values["codex_request_errors_total code="+code]; !ok {
			t.Errorf("%s is not there", code)
		}
	}
}

// builds collects the metric of these versions of Codex.
type builds []string

func (builds) Describe(ch chan<- *prometheus.Desc) { ch <- buildReading.desc }

func (b builds) Collect(ch chan<- prometheus.Metric) {
	versions := make(map[string]bool)
	for _, version := range b {
		versions[version] = true
	}
	collectBuild(ch, versions)
}

func TestBuildInfo(t *testing.T) {
	release, _ := caddy.Version()
	for _, test := range []struct{ known, want builds }{
		{nil, builds{""}}, {builds{""}, builds{""}}, {builds{"", "0.169.0"}, builds{"0.169.0"}}, {builds{"0.150.0", "0.169.0"}, builds{"0.150.0", "0.169.0"}},
	} {
		want := make(map[string]float64)
		for _, codex := range test.want {
			want[fmt.Sprintf("codex_build_info caddy=%s codex=%s version=%s", release, codex, version())] = 1
		}
		registry := prometheus.NewPedanticRegistry()
		must.OK(t, registry.Register(test.known))
		if got := measured(t, registry); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", test.known, got, want)
		}
	}
}

// Every configuration has a registry of its own. The counters are in it once, whatever the
// number of handlers, and a reload keeps their values.
func TestMetrics(t *testing.T) {
	first := provision(t, new(Handler), new(Handler))
	before := first.metrics(t)
	observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{Tools: turn.Report{
		Started: 5, Flushed: 3, Calls: 4, Truncated: true, Duplicates: 6, Unwritable: 7,
		Aborted: map[usetool.AbortReason]int{usetool.AbortUnclosed: 2},
	}}})
	observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{Tools: turn.Report{Calls: 1}}})
	for name, c := range map[string]*configuration{"the first": first, "the next": provision(t, new(Handler))} {
		after := c.metrics(t)
		for counter, grown := range map[string]float64{
			"codex_tool_buffer_started_total":                                         5,
			"codex_tool_buffer_flushed_total":                                         3,
			"codex_tool_calls_total":                                                  5,
			"codex_tool_calls_truncated_total":                                        1,
			"codex_tool_calls_duplicate_total":                                        6,
			"codex_tool_calls_unwritable_total":                                       7,
			"codex_tool_buffer_aborted_total reason=" + string(usetool.AbortUnclosed): 2,
		} {
			value, ok := after[counter]
			if !ok {
				t.Errorf("%s configuration has no %s, but %q", name, counter, slices.Sorted(maps.Keys(after)))
			} else if value-before[counter] != grown {
				t.Errorf("%s configuration: %s grew from %v to %v, want %v more", name, counter, before[counter], value, grown)
			}
		}
	}
}

// Each request is counted once, by its answer, and no label has a value that a client can choose.
func TestRequestMetrics(t *testing.T) {
	h := fakeHandler(t, t.Name())
	h.APIKeys = []APIKey{{Key: "k"}}
	c := provision(t, h)
	c.start(t)
	pid(t, sole(t, c.handlers[0]))
	h = c.handlers[0]
	h.Page = true
	before := c.metrics(t)
	for _, request := range []struct{ method, target, key string }{
		{"GET", "/v1/models", "k"}, {"GET", "/v1/models/plain", "k"}, {"GET", "/v1/models/made-up", "k"}, {"GET", "/v1/models", ""},
		{"POST", "/v1/chat/completions", "k"}, {"DELETE", "/v1/usage", "k"}, {"GET", "/v1/usage/raw", "k"}, {"GET", "/v1/made-up", "k"},
		{"GET", "/healthz", ""}, {"POST", "/readyz", ""}, {"GET", "/codex/status", "k"}, {"GET", "/codex/status", ""},
	} {
		if _, err := ask(h, request.method, request.target, request.key, nil); err != nil {
			t.Fatal(err)
		}
	}
	grown := make(map[string]float64)
	for name, value := range c.metrics(t) {
		if value -= before[name]; value > 0 && strings.HasPrefix(name, "codex_request") {
			grown[name] = value
		}
	}
	want := map[string]float64{
		"codex_requests_total route=models status=200":       2,
		"codex_requests_total route=models status=404":       1,
		"codex_requests_total route=models status=401":       1,
		"codex_requests_total route=chat status=400":         1,
		"codex_requests_total route=usage status=405":        1,
		"codex_requests_total route=usage status=200":        1,
		"codex_requests_total route=unknown status=404":      1,
		"codex_requests_total route=page status=401":         1,
		"codex_request_errors_total code=model_not_found":    1,
		"codex_request_errors_total code=invalid_api_key":    2,
		"codex_request_errors_total code=invalid_json":       1,
		"codex_request_errors_total code=method_not_allowed": 1,
		"codex_request_errors_total code=unknown_url":        1,
	}
	if !maps.Equal(grown, want) {
		t.Errorf("counted %v,\nwant %v", grown, want)
	}
}

// Each route that is not for probes is counted.
func TestRoutesHaveNames(t *testing.T) {
	var uncounted []string
	for path, r := range routes {
		if r.name == "" {
			uncounted = append(uncounted, path)
		}
	}
	if slices.Sort(uncounted); !slices.Equal(uncounted, []string{"/api/hello", "/healthz", "/readyz"}) {
		t.Errorf("not counted: %q", uncounted)
	}
}

// The costs of turns are measured, and active answers are counted.
func TestTurnMetrics(t *testing.T) {
	c := provision(t, new(Handler))
	modelLabels.add("known")
	o := observer{turnLogger: zap.NewNop()}
	before := c.metrics(t)
	ended := o.AnswerBegan(true)
	if got := c.metrics(t); got["codex_streams_active"] != 1 || got["codex_answers_active"] != 1 {
		t.Errorf("while it runs: %v", got)
	}
	r := usage.Record{
		Model: "known", Duration: 2 * time.Second, FirstOutput: time.Second, Status: http.StatusOK,
		Usage: codexrpc.Usage{InputTokens: 100, OutputTokens: 7, TotalTokens: 107},
	}
	o.TurnsEnded(t.Context(), []usage.Record{r})
	r.Choice = 1
	o.TurnsEnded(t.Context(), []usage.Record{r})
	o.TurnsEnded(t.Context(), []usage.Record{{Model: "made-up", Duration: time.Second, Status: http.StatusBadGateway, Code: "made-up-too"}})
	ended()
	if got := c.metrics(t); got["codex_streams_active"] != 0 || got["codex_answers_active"] != 0 {
		t.Errorf("once it has ended: %v", got)
	}
	after := c.metrics(t)
	const common = " gen_ai_operation_name=chat gen_ai_provider_name=openai gen_ai_request_model="
	for name, want := range map[string][2]float64{ // count and sum
		"gen_ai_server_request_duration_seconds error_type=" + common + "known":            {1, 2},
		"gen_ai_server_request_duration_seconds error_type=other" + common + "other":       {1, 1},
		"gen_ai_server_time_to_first_token_seconds" + common + "known":                     {2, 2},
		"gen_ai_client_token_usage" + common + "known gen_ai_token_type=input":             {2, 200},
		"gen_ai_client_token_usage" + common + "known gen_ai_token_type=output":            {2, 14},
		"gen_ai_client_token_usage" + common + "other gen_ai_token_type=input":             {0, 0},
		"gen_ai_server_time_to_first_token_seconds" + common + "other":                     {0, 0},
		"gen_ai_server_request_duration_seconds error_type=made-up-too" + common + "other": {0, 0},
	} {
		if got := [2]float64{after["count of "+name] - before["count of "+name], after["sum of "+name] - before["sum of "+name]}; got != want {
			t.Errorf("%s has grown by %v, want %v", name, got, want)
		}
	}
	for name := range after {
		if strings.Contains(name, "made-up") {
			t.Error("a label is the client's:", name)
		}
	}
}

// exported returns the names of all metrics, as scraped, by their families' names.
func exported(t *testing.T) map[string]string {
	t.Helper()
	names := make(map[string]string)
	inDesc := regexp.MustCompile(`fqName: "([^"]+)"`)
	descs := make(chan *prometheus.Desc, 100)
	registry.Describe(descs)
	close(descs)
	for desc := range descs {
		family := inDesc.FindStringSubmatch(desc.String())[1]
		if !strings.HasPrefix(family, "gen_ai_") && !strings.HasSuffix(family, "_duration_seconds") { // these are histograms
			names[family] = family
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			names[family+part] = family
		}
	}
	return names
}

var metricName = regexp.MustCompile(`\b(codex|gen_ai)_[a-z_]+[a-z]`)

// The dashboard and the alerts use metrics that exist, and the dashboard all of them.
func TestExamplesNameMetrics(t *testing.T) {
	names := exported(t)
	labels := []string{labelModel, labelTokenType}
	for file, complete := range map[string]bool{"../examples/grafana-dashboard.json": true, "../examples/alerts.yml": false} {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		shown := make(map[string]bool)
		for _, name := range metricName.FindAllString(string(text), -1) {
			family, ok := names[name]
			isCode := apierror.Code(name).Label() == name
			if !ok && !isCode && !slices.Contains(labels, name) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
			shown[family] = true
		}
		for _, family := range names {
			if complete && !shown[family] {
				t.Errorf("%s does not show %s", file, family)
			}
		}
		if complete && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
	}
}

// TestDocumentedMetrics: the documentation has exactly the metrics that exist.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	must.OK(t, err)
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:codex|gen_ai)_[a-z_]+)").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = true
	}
	families := make(map[string]bool)
	for _, family := range exported(t) {
		families[family] = true
	}
	for family := range families {
		if !documented[family] {
			t.Errorf("%s is not documented", family)
		}
	}
	for name := range documented {
		if !families[name] {
			t.Errorf("%s is documented, and does not exist", name)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	l := labelSet{limit: 3}
	if got := l.labelOf("a"); got != otherModel {
		t.Errorf("nothing is known, and a is %q", got)
	}
	l.add("a", "a", "b")
	l.add("c", "d")
	for value, want := range map[string]string{"a": "a", "b": "b", "c": "c", "d": "other", "": "other"} {
		if got := l.labelOf(value); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l.add(fmt.Sprint(i))
			l.labelOf("a")
		})
	}
	wg.Wait()
	if len(l.known) != 3 {
		t.Errorf("%d are known", len(l.known))
	}
}

// The metrics of a model exist from its first turn on.
func TestModelsWithoutTurns(t *testing.T) {
	c := provision(t, new(Handler))
	modelLabels.add("silent")
	for name := range c.metrics(t) {
		if strings.Contains(name, "=silent") {
			t.Error("before the first turn there is", name)
		}
	}
}
