package caddymodule

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// exported returns the names of all metrics, as they are scraped, by the names of their
// families.
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

// TestExamplesNameMetrics: the dashboard and the alerts use metrics that exist, and the
// dashboard uses all of them.
func TestExamplesNameMetrics(t *testing.T) {
	names := exported(t)
	labels := []string{labelModel, labelTokenType}
	for file, complete := range map[string]bool{"../examples/grafana-dashboard.json": true, "../examples/alerts.yml": false} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
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
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
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
