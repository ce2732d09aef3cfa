package e2e

import (
	"fmt"
	"os"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// children returns the running descendants of this process as "pid name". Without
// /proc it returns none.
func children() []string {
	var found []string
	for _, pid := range rig.Below(os.Getpid()) {
		if name := rig.Name(pid); name != "" {
			found = append(found, fmt.Sprintf("%d %s", pid, name))
		}
	}
	slices.Sort(found)
	return found
}
