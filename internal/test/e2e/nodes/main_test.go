package nodes

import (
	"os"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }
