package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// row is what was found out about a release.
type row struct {
	release  string
	features []string // that it lacks
	tests    *result  // nil: they were not run
}

func (r *row) String() string {
	tests := r.tests.String()
	if r.tests != nil {
		tests = fmt.Sprintf("%d of %d", r.tests.passed, r.tests.all())
		if len(r.tests.failed) > 0 {
			tests += "; failed: " + cells(r.tests.failed)
		}
		if len(r.tests.unfinished) > 0 {
			tests += "; when the time was over: " + cells(r.tests.unfinished)
		}
	}
	return fmt.Sprintf("| %s | %s | %s |", r.release, cells(r.features), tests)
}

func cells(found []string) string {
	if len(found) == 0 {
		return "none"
	}
	return "`" + strings.Join(found, "`, `") + "`"
}

// write replaces or adds the release's row in the table with the header release, newest first.
func (r *row) write(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	begin := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| release ") })
	if begin < 0 || begin+1 >= len(lines) {
		return fmt.Errorf("%s has no table of releases", path)
	}
	begin += 2 // its header and the line below
	end := begin
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	rows := slices.DeleteFunc(slices.Clone(lines[begin:end]), func(line string) bool {
		return strings.HasPrefix(line, "| "+r.release+" |")
	})
	rows = append(rows, r.String())
	slices.SortFunc(rows, func(a, b string) int { return compareReleases(b, a) })
	lines = slices.Concat(lines[:begin], rows, lines[end:])
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}

// compareReleases compares the numbers with which rows begin.
func compareReleases(a, b string) int {
	left, right := numbers(a), numbers(b)
	return slices.Compare(left[:], right[:])
}

func numbers(row string) (n [3]int) {
	_, _ = fmt.Sscanf(row, "| %d.%d.%d |", &n[0], &n[1], &n[2]) // zeros: it comes last
	return n
}
