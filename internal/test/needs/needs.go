// Package needs skips tests that need programs which a Go installation does not have.
//
// A plain `go test ./...` skips such a test and says how to get the program. `make
// test` sets [Require], so that the test fails instead.
package needs

import (
	"os"
	"testing"
)

// Require is the environment variable that makes such tests fail if it is not empty.
const Require = "CADDY_CODEX_REQUIRE_ALL"

// Required reports whether tests must not be skipped.
func Required() bool { return os.Getenv(Require) != "" }

// Missing skips a test, or fails it if none may be. reason says what is missing and how to get it.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if Required() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
