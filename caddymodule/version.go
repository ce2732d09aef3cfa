package caddymodule

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

// modulePath is the path of this module in the build information.
const modulePath = "github.com/caddy-codex/caddy-codex"

// version returns the version of this module, for the admin API and for Codex, which
// sends it to the model's provider in its User-Agent.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionIn(info)
})

const (
	unknownVersion = "unknown"
	develVersion   = "(devel)" // Go's name for a module that is built from a directory
)

// versionIn returns the version of this module in a build, of which it is the main
// module or a dependency. The version of a replacement takes precedence. A directory has
// no version; then it is the version that the build requires, which the Makefile takes
// from the git tag.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil && m.Replace.Version != "" && m.Replace.Version != develVersion {
			return m.Replace.Version
		}
		if isPlaceholder(m.Version) {
			return develVersion
		}
		return cmp.Or(m.Version, develVersion)
	}
	return unknownVersion
}

// isPlaceholder reports whether a version stands in go.mod because one is required there:
// v0.0.0, and what the go command writes for a replaced module.
func isPlaceholder(version string) bool {
	return version == "v0.0.0" || strings.HasPrefix(version, "v0.0.0-00010101000000-")
}
