// Package needs lets tests ask for what is not part of a Go installation.
//
// A plain `go test ./...` skips a test whose program is missing and says how to
// get it. `make test` sets [Require], so that such a test fails there instead:
// what CI runs, it runs whole.
package needs

import (
	"os"
	"testing"
)

// Require is the environment variable that turns skipped tests into failed
// ones, if it is not empty.
const Require = "CADDY_CODEX_REQUIRE_ALL"

// Required reports whether nothing may be skipped.
func Required() bool { return os.Getenv(Require) != "" }

// Missing ends a test that lacks what it needs. The reason says what is missing
// and how to get it.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if Required() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
