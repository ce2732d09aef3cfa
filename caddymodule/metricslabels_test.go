package caddymodule

import (
	"fmt"
	"sync"
	"testing"
)

func TestLabelsAreBounded(t *testing.T) {
	l := labels{limit: 3}
	if got := l.of("a"); got != otherModel {
		t.Errorf("nothing is known, and a is %q", got)
	}
	l.add("a", "a", "b")
	l.add("c", "d")
	for value, want := range map[string]string{"a": "a", "b": "b", "c": "c", "d": otherModel, "": otherModel} {
		if got := l.of(value); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l.add(fmt.Sprint(i))
			l.of("a")
		})
	}
	wg.Wait()
	if len(l.known) != 3 {
		t.Errorf("%d are known", len(l.known))
	}
}
