package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

// TestReleaseRefuses checks that nothing is built for a version without a section, nor for
// a tree with changes.
func TestReleaseRefuses(t *testing.T) {
	for version, want := range map[string]string{
		"v99.0.0":      "CHANGELOG.md has nothing under v99.0.0",
		"v0.1.0-dirty": "the working tree has changes",
		"1.0":          "is no version such as v0.1.0",
	} {
		cmd := exec.CommandContext(e2e.Context(t), "../../../../scripts/release", version, "v2.0.0", "no-such-xcaddy", "no-such-jq", t.TempDir())
		if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v\n%s", version, err, output)
		}
	}
}

// TestComponents checks the list of the components of a program, with modules that others
// replace.
func TestComponents(t *testing.T) {
	jq, err := e2e.FindJQ()
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
	if err != nil {
		t.Fatal(err)
	}
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

// workflow is a workflow of CI, as far as tests read it.
type workflow struct {
	On struct {
		Push struct{ Tags []string }
	}
	Permissions map[string]string
	Jobs        map[string]struct {
		Strategy struct {
			Matrix struct{ Include []map[string]string }
		}
		Steps []struct {
			Uses, Run string
			Env       map[string]string
		}
	}
}

// readWorkflow reads a workflow, all of whose actions have to be pinned.
func readWorkflow(t *testing.T, name string) (w workflow) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(e2e.ReadFile(t, "../../../../.github/workflows/"+name)), &w); err != nil {
		t.Fatal(err)
	}
	for name, job := range w.Jobs {
		for _, step := range job.Steps {
			if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
				t.Errorf("%s uses %s, which is not pinned", name, step.Uses)
			}
		}
	}
	return w
}

// TestReleaseWorkflow runs the commands of the workflow of a tag, with programs in the place
// of make, gh and docker that print what they are given.
func TestReleaseWorkflow(t *testing.T) {
	readWorkflow(t, "ci.yml")
	w := readWorkflow(t, "release.yml")
	if !slices.Contains(w.On.Push.Tags, "v*") || w.Permissions["contents"] != "read" {
		t.Errorf("%+v", w)
	}
	programs := t.TempDir()
	for _, name := range []string{"make", "gh", "docker"} {
		script := "#!/bin/sh\necho " + name + ` "$@"` + "\ncase \"$*\" in *--password-stdin*) cat;; esac\n"
		if name == "make" {
			script += "mkdir -p build/release && cd build/release && touch NOTES.md SHA256SUMS caddy-codex_1_linux_amd64.tar.gz caddy-codex_1_windows_amd64.zip caddy-codex_1_linux_amd64.cdx.json\n"
		}
		path := filepath.Join(programs, name)
		e2e.WriteFile(t, path, script)
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(job string, matrix map[string]string) string {
		dir, said := t.TempDir(), ""
		for _, step := range w.Jobs[job].Steps {
			cmd := exec.CommandContext(e2e.Context(t), "bash", "-e", "-c", step.Run)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "GITHUB_REF_NAME=v1.2.3", "GITHUB_REPOSITORY=owner/name", "GITHUB_ACTOR=me"}
			for name, value := range step.Env {
				for key, chosen := range matrix {
					value = strings.ReplaceAll(value, "${{ matrix."+key+" }}", chosen)
				}
				cmd.Env = append(cmd.Env, name+"="+strings.ReplaceAll(value, "${{ github.token }}", "the-token"))
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(strings.Join(cmd.Env, " "), "${{") {
				t.Errorf("%s: %v %s %q", job, err, out, cmd.Env)
			}
			said += string(out)
		}
		return said
	}
	check := func(said, want string) {
		t.Helper()
		if said != want {
			t.Errorf("it ran\n%s\nand not\n%s", said, want)
		}
	}
	const files = "build/release/caddy-codex_1_linux_amd64.cdx.json build/release/caddy-codex_1_linux_amd64.tar.gz build/release/caddy-codex_1_windows_amd64.zip build/release/SHA256SUMS"
	check(run("files", nil), "make release\ngh release create v1.2.3 --draft --verify-tag --title v1.2.3 --notes-file build/release/NOTES.md "+files+"\n")
	const login = "docker login ghcr.io -u me --password-stdin\nthe-token\n"
	parts := ""
	for _, chosen := range w.Jobs["image"].Strategy.Matrix.Include {
		image := "ghcr.io/owner/name:v1.2.3-" + chosen["arch"]
		parts += " " + image
		check(run("image", chosen), "docker build --build-arg VERSION=v1.2.3 -f examples/docker/Dockerfile -t "+image+" .\n"+login+"docker push "+image+"\n")
	}
	check(run("images", nil), login+"docker buildx imagetools create -t ghcr.io/owner/name:v1.2.3"+parts+"\n")
}
