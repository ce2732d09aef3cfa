// Package draw has random numbers for the tests of properties. Each run has others, so that it may try
// a part of the cases; with TEST_CASES=all it tries all.
package draw

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Random returns random numbers for a test. If it fails it says how to get the same again.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("TEST_SEED=%d draws the same cases again", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// Cases is how many cases a test is to try.
func Cases(some, all int) int {
	if os.Getenv("TEST_CASES") == "all" {
		return all
	}
	return some
}
