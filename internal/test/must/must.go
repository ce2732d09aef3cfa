// Package must ends a test whose preparations fail, or that waits in vain.
package must

import (
	"testing"
	"time"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper() // here, since it takes longer than the loops of some benchmarks
		t.Fatal(err)
	}
}

// Happen waits until something has happened. It ends the test, and says what there is instead, if that
// takes longer than it can even on a busy machine.
func Happen(t testing.TB, what string, happened func() bool, instead ...func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			for _, describe := range instead {
				t.Error(describe())
			}
			t.Fatal("it never came to this: ", what)
		}
	}
}
