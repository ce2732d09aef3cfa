// Command sbom prints what a Go program is made of, as a CycloneDX document:
//
//	sbom build/caddy
//
// It reads what the Go linker has recorded in the program, so that it describes exactly
// that program, of any system.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err == nil {
		err = write(os.Stdout, info)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is a bill of materials of CycloneDX 1.6.
type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

// component is a program or a module.
type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// write writes the document of a program.
func write(w io.Writer, info *debug.BuildInfo) error {
	doc := document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{component{Ref: "program", Type: "application", Name: cmp.Or(info.Path, info.Main.Path)}},
		Components: []component{{
			Ref: "pkg:golang/std@" + goVersion(info), Type: "library", Name: "std", Version: goVersion(info), PURL: "pkg:golang/std@" + goVersion(info),
		}},
	}
	for _, m := range info.Deps {
		doc.Components = append(doc.Components, library(m))
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

// goVersion returns the version of Go without its name and without experiments.
func goVersion(info *debug.BuildInfo) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return version
}

// library describes a module. Where another module replaces it, that was built; a
// directory has no version of its own.
func library(m *debug.Module) component {
	if m.Replace != nil && m.Replace.Version != "" && m.Replace.Version != "(devel)" {
		m = m.Replace
	}
	purl := (&url.URL{Scheme: "pkg", Opaque: "golang/" + m.Path + "@" + url.PathEscape(m.Version)}).String()
	return component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
}
