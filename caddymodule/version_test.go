package caddymodule

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	caddyMain := debug.Module{Path: "caddy", Version: "(devel)"}
	for name, test := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"built into Caddy": {
			debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{other, {Path: modulePath, Version: "v1.2.3"}}}, "v1.2.3",
		},
		"replaced by a directory": {
			debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "."}}}}, "(devel)",
		},
		"replaced by a fork": {
			debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}}}}, "v1.2.4",
		},
		"built by itself":         {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v1.2.5"}}, "v1.2.5"},
		"built without a version": {debug.BuildInfo{Main: debug.Module{Path: modulePath}}, "(devel)"},
		"not there":               {debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{other}}, "unknown"},
	} {
		if got := versionIn(&test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
