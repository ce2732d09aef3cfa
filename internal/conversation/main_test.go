package conversation

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
)

func TestMain(m *testing.M) {
	fakeserver.Main()
	goleak.VerifyTestMain(m)
}
