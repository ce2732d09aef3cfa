package caddymodule

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	caddyMain := debug.Module{Path: "caddy", Version: "(devel)"}
	fromDirectory := func(version string) debug.BuildInfo {
		replaced := &debug.Module{Path: modulePath, Version: version, Replace: &debug.Module{Path: "/src", Version: "(devel)"}}
		return debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{other, replaced}}
	}
	for name, test := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"built into Caddy": {
			debug.BuildInfo{Main: caddyMain, Deps: []*debug.Module{other, {Path: modulePath, Version: "v1.2.3"}}}, "v1.2.3",
		},
		"built from a directory":          {fromDirectory("v0.0.0"), "(devel)"},
		"built from a directory, by go":   {fromDirectory("v0.0.0-00010101000000-000000000000"), "(devel)"},
		"built from a directory at a tag": {fromDirectory("v0.1.0"), "v0.1.0"},
		"built behind a tag":              {fromDirectory("v0.1.0-3-g40ae4d8-dirty"), "v0.1.0-3-g40ae4d8-dirty"},
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
