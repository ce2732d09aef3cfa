package main

import (
	"reflect"
	"strings"
	"testing"
)

// TestDrawCase looks for rules that do not exist, draws cases twice, and finds a path in each.
func TestDrawCase(t *testing.T) {
	for rule, alternatives := range rules {
		for _, alternative := range alternatives {
			for _, m := range reference.FindAllStringSubmatch(alternative, -1) {
				if name := m[2]; rules[name] == nil && name != "case" && !strings.Contains(alternative, "<<"+name+"=") {
					t.Errorf("%s: there is no rule %q", rule, name)
				}
			}
		}
	}
	for number := range 2000 {
		steps := drawCase("start", 1, number)
		if !reflect.DeepEqual(steps, drawCase("start", 1, number)) {
			t.Fatalf("case %d is drawn in two ways", number)
		}
		for _, s := range steps {
			if !strings.HasPrefix(s.path, "/") || strings.Contains(s.body, "<<") {
				t.Errorf("case %d: %s", number, s)
			}
		}
	}
}
