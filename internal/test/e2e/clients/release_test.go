package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// TestChangelog checks the headings of the changelog, from which a release takes its notes.
func TestChangelog(t *testing.T) {
	var sections []string
	for _, match := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(e2e.ReadFile(t, "../../../../CHANGELOG.md"), -1) {
		sections = append(sections, match[1])
	}
	if len(sections) == 0 || sections[0] != "Unreleased" {
		t.Fatalf("the sections are %q", sections)
	}
	for _, section := range sections[1:] {
		if !regexp.MustCompile(`^v\d+\.\d+\.\d+ - 20\d\d-\d\d-\d\d$`).MatchString(section) {
			t.Errorf("the section %q is no version with its date", section)
		}
	}
}

// published matches what exists only once somebody has published it: an image, a file of a
// release, the module without its source, a module that is registered for downloads.
var published = regexp.MustCompile(`ghcr\.io/(caddy-codex|OWNER)|releases/(download|latest)|caddy-codex/caddy-codex@v[^0]|--with github\.com/caddy-codex/caddy-codex(\s|$)|add-package|[Bb]inaries of releases`)

// TestNothingUnpublished checks that no page for users needs anything that is not in this
// repository. How to publish is in CONTRIBUTING.md.
func TestNothingUnpublished(t *testing.T) {
	paths := append(pages(t), "../../../../Caddyfile.example", "../../../../examples/docker/compose.yaml", "../../../../examples/cluster/compose.yaml")
	for _, path := range paths {
		if base := filepath.Base(path); base == "CONTRIBUTING.md" || base == "CHANGELOG.md" {
			continue
		}
		for _, promise := range published.FindAllString(e2e.ReadFile(t, path), -1) {
			t.Errorf("%s promises %q", path, promise)
		}
	}
	if !published.MatchString("xcaddy build v2.11.9 --with github.com/caddy-codex/caddy-codex\n") {
		t.Error("the pattern does not find the module without its source")
	}
}

// TestReleaseRefuses: no build for a version without a section, or for a tree with changes.
func TestReleaseRefuses(t *testing.T) {
	for version, want := range map[string]string{
		"v99.0.0":      "CHANGELOG.md has nothing under v99.0.0",
		"v0.1.0-dirty": "the working tree has changes",
		"1.0":          "is no version such as v0.1.0",
	} {
		cmd := exec.CommandContext(e2e.Context(t), "../../../../scripts/release", version, "v2.0.0", "no-such-xcaddy", "no-such-jq", "no-such-nfpm", t.TempDir())
		if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v\n%s", version, err, output)
		}
	}
}

// TestComponents checks the list of the components of a program, with modules that others replace.
func TestComponents(t *testing.T) {
	jq, err := findJQ()
	if err != nil {
		needs.Missing(t, "jq is missing: make deps")
	}
	info, err := json.Marshal(debug.BuildInfo{
		GoVersion: "go1.26.1 X:exp", Path: "caddy",
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.2.3"},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.1.0+incompatible"}},
			{Path: "example.com/c", Version: "v0.1.0", Replace: &debug.Module{Path: "/src", Version: "(devel)"}},
		},
	})
	must.OK(t, err)
	cmd := exec.CommandContext(e2e.Context(t), jq, "-c", "-f", "../../../../scripts/sbom.jq")
	cmd.Stdin = bytes.NewReader(info)
	out, err := cmd.CombinedOutput()
	library := func(name, version string) string {
		purl := "pkg:golang/" + name + "@" + version
		return fmt.Sprintf(`{"bom-ref":%q,"type":"library","name":%q,"version":%q,"purl":%q}`, purl, name, version, purl)
	}
	components := []string{library("std", "1.26.1"), library("example.com/a", "v1.2.3"), library("example.com/fork", "v1.1.0+incompatible"), library("example.com/c", "v0.1.0")}
	want := `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{"component":{"bom-ref":"program","type":"application","name":"caddy"}},"components":[` +
		strings.Join(components, ",") + `]}`
	var got, wanted any
	if err := errors.Join(err, json.Unmarshal(out, &got), json.Unmarshal([]byte(want), &wanted)); err != nil || !reflect.DeepEqual(got, wanted) {
		t.Errorf("%v: the document is %s, want %s", err, out, want)
	}
}

// TestWorkflows: workflows pin their actions, and the one of a tag may not write by default.
func TestWorkflows(t *testing.T) {
	type workflow struct {
		On struct {
			Push struct{ Tags []string }
		}
		Permissions map[string]string
		Jobs        map[string]struct {
			Steps []struct{ Uses string }
		}
	}
	read := func(name string) (w workflow) {
		must.OK(t, yaml.Unmarshal([]byte(e2e.ReadFile(t, "../../../../.github/workflows/"+name)), &w))
		for job, steps := range w.Jobs {
			for _, step := range steps.Steps {
				if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
					t.Errorf("%s of %s uses %s, which is not pinned", job, name, step.Uses)
				}
			}
		}
		return w
	}
	read("ci.yml")
	if w := read("release.yml"); !slices.Contains(w.On.Push.Tags, "v*") || w.Permissions["contents"] != "read" {
		t.Errorf("%+v", w)
	}
}

// findJQ returns jq on the PATH, or else the one of `make deps`.
func findJQ() (string, error) {
	if path, err := exec.LookPath("jq"); err == nil {
		return path, nil
	}
	local, err := filepath.Abs("../../../../.cache/gojq")
	if err != nil {
		return "", err
	}
	return exec.LookPath(local)
}
