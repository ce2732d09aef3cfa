package gateway

import (
	"strings"
	"testing"
)

// TestIgnoredParams: the header stays short, however much was ignored.
func TestIgnoredParams(t *testing.T) {
	if got := ignoredParams([]string{"temperature", "seed"}); got != "temperature, seed" {
		t.Errorf("got %q", got)
	}
	names := make([]string, 1024)
	for i := range names {
		names[i] = "tools[1023].tools[1000000]"
	}
	got := ignoredParams(names)
	if len(got) > 1024 || !strings.HasSuffix(got, ", and 992 more") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
