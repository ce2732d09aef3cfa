package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// keeper keeps the book over restarts.
var keeper = usage.NewKeeper(book)

// usageKey is where a node's book is in Caddy's storage. Several nodes may
// share one storage.
func usageKey() (string, error) {
	id, err := caddy.InstanceID()
	if err != nil {
		return "", fmt.Errorf("finding out the id of this instance of Caddy: %w", err)
	}
	return "codex/usage/" + id.String() + ".json", nil
}

// keepUsage keeps the book in the storage of the app's configuration. Without
// an id there is no place for it: then usage does not outlive this Caddy.
func (a *App) keepUsage() {
	key, err := usageKey()
	if err != nil {
		a.logger.Error("usage is not stored", "error", err)
		return
	}
	a.releaseUsage = keeper.Hold(usage.Place{Storage: a.storage, Key: key, Logger: a.logger})
}
