package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestFeatures checks that the features of the recordings and of homes are found.
func TestFeatures(t *testing.T) {
	t.Chdir("../../../..")
	features, err := readFeatures()
	if err != nil || !slices.Contains(features, "shell_tool") || !slices.Contains(features, "hooks") {
		t.Fatalf("%q, %v", features, err)
	}
}

// TestTable checks that a row is replaced or added in the order of the releases.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "releases.md")
	const head, tail = "# Title\n\n| release | a | b |\n| --- | --- | --- |\n", "\nThe end.\n"
	must.OK(t, os.WriteFile(path, []byte(head+"| 0.99.0 | old |\n| 0.160.0 | old |\n"+tail), 0o600))
	for _, r := range []row{
		{release: "0.160.0", features: []string{"f: removed", "g: unknown"}, tests: &result{passed: 2, failed: []string{"TestX"}, unfinished: []string{"TestY"}}},
		{release: "0.169.0", tests: &result{passed: 3}},
		{release: "0.100.1"},
	} {
		must.OK(t, r.write(path))
	}
	got, err := os.ReadFile(path)
	want := head + "| 0.169.0 | none | 3 of 3 |\n| 0.160.0 | `f: removed`, `g: unknown` | 2 of 4; failed: `TestX`; when the time was over: `TestY` |\n" +
		"| 0.100.1 | none | not run |\n| 0.99.0 | old |\n" + tail
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// TestReadResults reads the mixed output of packages that pass, fail, time out and are not built.
func TestReadResults(t *testing.T) {
	var r result
	var log strings.Builder
	err := r.read(strings.NewReader(`{"Action":"run","Package":"m/a","Test":"TestA"}
{"Action":"run","Package":"m/b","Test":"TestB"}
{"Action":"run","Package":"m/b","Test":"TestB/sub"}
{"Action":"output","Package":"m/b","Test":"TestB/sub","Output":"wrong\n"}
{"Action":"fail","Package":"m/b","Test":"TestB/sub"}
{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"pass","Package":"m/a"}
{"Action":"fail","Package":"m/b","Test":"TestB"}
{"Action":"fail","Package":"m/b"}
{"Action":"run","Package":"m/c","Test":"TestSkipped"}
{"Action":"skip","Package":"m/c","Test":"TestSkipped"}
{"Action":"run","Package":"m/c","Test":"TestC"}
{"Action":"fail","Package":"m/c"}
{"Action":"fail","Package":"m/d"}
`), &log)
	want := result{passed: 1, failed: []string{"TestB", "d"}, unfinished: []string{"TestC"}}
	if err != nil || !reflect.DeepEqual(r, want) || log.String() != "wrong\n" {
		t.Errorf("%+v, want %+v; %v, %q", r, want, err, log.String())
	}
}
