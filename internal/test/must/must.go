// Package must ends a test whose preparations fail.
package must

import "testing"

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper() // here, since it takes longer than the loops of some benchmarks
		t.Fatal(err)
	}
}
