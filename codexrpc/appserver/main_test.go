package appserver

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be the child process of the tests, and checks
// that no goroutine outlives them.
func TestMain(m *testing.M) {
	// Set, if empty: a child that ran the tests would start children of its own.
	if mode, ok := os.LookupEnv(childEnv); ok {
		if mode == ownsPrivateDir {
			os.Exit(ownPrivateDir())
		}
		os.Exit(runChild(mode))
	}
	goleak.VerifyTestMain(m)
}
