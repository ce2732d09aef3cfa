package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"testing"
)

// TestWrite checks the components of a program, with modules that others replace.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, &debug.BuildInfo{
		GoVersion: "go1.26.1 X:exp", Path: "caddy",
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.2.3"},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.1.0+incompatible"}},
			{Path: "example.com/c", Version: "v0.1.0", Replace: &debug.Module{Path: "/src", Version: "(devel)"}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != "CycloneDX" || doc.SpecVersion != "1.6" || doc.Version != 1 || doc.Metadata.Component.Name != "caddy" || doc.Metadata.Component.Type != "application" {
		t.Errorf("the document is %+v", doc)
	}
	want := []string{"pkg:golang/std@1.26.1", "pkg:golang/example.com/a@v1.2.3", "pkg:golang/example.com/fork@v1.1.0+incompatible", "pkg:golang/example.com/c@v0.1.0"}
	refs := make(map[string]bool)
	for i, c := range doc.Components {
		if i >= len(want) || c.PURL != want[i] || c.Ref != c.PURL || c.Type != "library" || c.Name == "" || c.Version == "" {
			t.Errorf("%d: %+v", i, c)
		}
		if refs[c.Ref] {
			t.Errorf("%s is there twice", c.Ref)
		}
		refs[c.Ref] = true
	}
	if len(doc.Components) != len(want) {
		t.Errorf("%d components, want %d", len(doc.Components), len(want))
	}
}
