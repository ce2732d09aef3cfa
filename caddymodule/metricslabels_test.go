package caddymodule

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLabelsAreBounded(t *testing.T) {
	l := labelSet{limit: 3}
	if got := l.metricsFor("a"); got != otherModel {
		t.Errorf("nothing is known, and a is %q", got.label)
	}
	l.add("a", "a", "b")
	l.add("c", "d")
	for value, want := range map[string]string{"a": "a", "b": "b", "c": "c", "d": "other", "": "other"} {
		if got := l.metricsFor(value).label; got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l.add(fmt.Sprint(i))
			l.metricsFor("a")
		})
	}
	wg.Wait()
	if len(l.known) != 3 {
		t.Errorf("%d are known", len(l.known))
	}
}

// TestModelsWithoutTurns: the metrics of a model exist from its first turn on, and are looked up
// once.
func TestModelsWithoutTurns(t *testing.T) {
	c := provision(t, new(Handler))
	modelLabels.add("silent")
	for name := range histograms(t, c) {
		if strings.Contains(name, "=silent") {
			t.Error("before the first turn there is", name)
		}
	}
	m := modelLabels.metricsFor("silent")
	if modelLabels.add("silent"); modelLabels.metricsFor("silent") != m || m.duration() != m.duration() {
		t.Error("the metrics are looked up again")
	}
}
