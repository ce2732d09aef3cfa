package e2e

import (
	"fmt"
	"os"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// children lists the processes below this one that are alive, as "pid name".
// Where there is no /proc it finds none.
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
