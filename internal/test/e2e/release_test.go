package e2e

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestChangelog checks the headings of the changelog, from which a release takes its notes.
func TestChangelog(t *testing.T) {
	var sections []string
	for _, match := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readFile(t, "../../../CHANGELOG.md"), -1) {
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

// TestReleaseRefuses checks that nothing is built for a version without a section, nor for
// a tree with changes.
func TestReleaseRefuses(t *testing.T) {
	for version, want := range map[string]string{
		"v99.0.0":      "CHANGELOG.md has no section for v99.0.0",
		"v0.1.0-dirty": "the working tree has changes",
		"1.0":          "is no version such as v0.1.0",
	} {
		cmd := exec.Command("../../../scripts/release", version, "v2.0.0", "no-such-xcaddy", t.TempDir())
		if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v\n%s", version, err, output)
		}
	}
}

// TestReleaseWorkflow checks that the workflow of a tag builds what the script packs.
func TestReleaseWorkflow(t *testing.T) {
	var workflow struct {
		On struct {
			Push struct{ Tags []string }
		}
		Permissions map[string]string
		Jobs        map[string]struct {
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "../../../.github/workflows/release.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(workflow.On.Push.Tags, "v*") || workflow.Permissions["contents"] != "read" {
		t.Errorf("%+v", workflow)
	}
	var runs string
	for name, job := range workflow.Jobs {
		for _, step := range job.Steps {
			runs += step.Run + "\n"
			if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
				t.Errorf("%s uses %s, which is not pinned", name, step.Uses)
			}
		}
	}
	for _, part := range []string{"make release\n", "--draft", "build/release/SHA256SUMS", "examples/docker/Dockerfile"} {
		if !strings.Contains(runs, part) {
			t.Errorf("nothing runs %q", part)
		}
	}
}
