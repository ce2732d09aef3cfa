// Package draw has random numbers for the tests of properties: the same in each run, so that none
// fails by chance, or others with another TEST_SEED. With TEST_CASES=all a test tries more cases.
package draw

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Random returns the random numbers of TEST_SEED, a number, for a test.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	return rand.New(rand.NewPCG(seed, 1))
}

// Cases is how many cases a test is to try.
func Cases(some, all int) int {
	if os.Getenv("TEST_CASES") == "all" {
		return all
	}
	return some
}
