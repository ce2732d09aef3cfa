package caddymodule

import (
	"cmp"
	"runtime/debug"
	"sync"
)

// modulePath is how this module is called in a build's list of dependencies.
const modulePath = "github.com/caddy-codex/caddy-codex"

// version is this module's version as the build recorded it, for the
// app-server's logs.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionIn(info)
})

const (
	unknownVersion = "unknown"
	develVersion   = "(devel)" // as Go calls what is built from a directory
)

// versionIn finds this module in a build, as its main module or a dependency.
// A replacement says more than what it replaces, whose version may be made up.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return cmp.Or(m.Version, develVersion)
	}
	return unknownVersion
}
