package aggregator_test

import (
	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

// The tests of the package itself cannot import toolcall, which imports the package.
func init() { aggregator.SetToolCall(toolcall.Pattern{}) }
