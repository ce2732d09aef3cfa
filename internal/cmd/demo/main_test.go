package main

import (
	"strings"
	"testing"
)

// TestLocal checks that the demo, which has no key, listens on loopback only.
func TestLocal(t *testing.T) {
	text := caddyfile(8080, "/a/codex", "/a/home")
	if !strings.Contains(text, "http://:8080 {\n\tbind 127.0.0.1") || strings.Contains(text, "0.0.0.0") || strings.Contains(text, "api_key") {
		t.Error(text)
	}
	for _, address := range loopbacks() {
		if address != "127.0.0.1" && address != "::1" {
			t.Error(address)
		}
	}
}
