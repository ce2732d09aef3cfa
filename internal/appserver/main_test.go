package appserver

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// parents are the modes in which the test binary is no app-server, but has something that
// is left if it is killed.
var parents = map[string]func() int{ownsPrivateDir: ownPrivateDir}

// TestMain is the child process of the tests, or checks that no goroutine outlives them.
func TestMain(m *testing.M) {
	// Set, if empty: a child that ran the tests would start children of its own.
	if mode, ok := os.LookupEnv(childEnv); ok {
		if parent := parents[mode]; parent != nil {
			os.Exit(parent())
		}
		os.Exit(runChild(mode))
	}
	goleak.VerifyTestMain(m)
}
