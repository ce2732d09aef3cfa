package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// root is the directory of the module.
const root = "../../../.."

// output is what a test program prints under Valgrind.
const output = `==2756== Cachegrind, a high-precision tracing profiler
goos: linux
BenchmarkResponseTextDelta 	    1000	     15799 ns/op	 218.1 MB/s	      80 B/op	       3 allocs/op
PASS
==2756==
==2756== I   refs:      138,181,614
`

func TestReadCounts(t *testing.T) {
	if c, found := readCounts(output); !found || c != (counts{allocs: 3, bytes: 80}) {
		t.Errorf("%+v, %t", c, found)
	}
	if _, found := readCounts("PASS\n"); found {
		t.Error("a benchmark that did not run was found")
	}
	if n := readInstructions(output); n != 138_181_614 {
		t.Errorf("%.0f instructions", n)
	}
}

func TestCostsMore(t *testing.T) {
	was := counts{allocs: 3, bytes: 1000, instructions: 10_000}
	for name, c := range map[string]struct {
		was, now counts
		more     bool
	}{
		"the same":            {was, was, false},
		"less":                {was, counts{}, false},
		"one allocation":      {was, counts{4, 1000, 10_000}, true},
		"1 of 400":            {counts{allocs: 400}, counts{allocs: 401}, false},
		"4 of 400":            {counts{allocs: 400}, counts{allocs: 404}, true},
		"the first":           {counts{}, counts{allocs: 1}, true},
		"some bytes":          {was, counts{3, 1050, 10_000}, false},
		"many bytes":          {was, counts{3, 1100, 10_000}, true},
		"some instructions":   {was, counts{3, 1000, 10_300}, false},
		"many instructions":   {was, counts{3, 1000, 10_700}, true},
		"fewer, more of them": {was, counts{2, 2000, 10_000}, true},
	} {
		if more := costsMore(c.was, c.now); more != c.more {
			t.Errorf("%s: %t", name, more)
		}
	}
}

// TestStages: every stage has its benchmark.
func TestStages(t *testing.T) {
	for _, s := range stages {
		files, err := filepath.Glob(filepath.Join(root, s.pkg, "*_test.go"))
		must.OK(t, err)
		name, _, _ := strings.Cut(s.bench, "/")
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			must.OK(t, err)
			found = found || strings.Contains(string(text), "func Benchmark"+name+"(b *testing.B)")
		}
		if !found {
			t.Errorf("%s has no Benchmark%s", s.pkg, name)
		}
	}
}

// TestMeasure builds and runs a benchmark, and looks for those that are not there.
func TestMeasure(t *testing.T) {
	dir, err := filepath.Abs(root)
	must.OK(t, err)
	tree := &tree{dir: dir, programs: t.TempDir()}
	for s, want := range map[stage]bool{
		{"sse", "WriteBatch", 10}: true,
		{"sse", "Nothing", 10}:    false,
		{"nowhere", "Nothing", 1}: false,
	} {
		c, found, err := tree.measure(t.Context(), s)
		if err != nil || found != want || found && c.bytes == 0 || c.instructions != 0 {
			t.Errorf("%+v: %+v, %t, %v", s, c, found, err)
		}
	}
}
