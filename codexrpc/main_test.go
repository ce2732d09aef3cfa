package codexrpc

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that should end soon, on a machine however busy.
const patience = time.Minute
