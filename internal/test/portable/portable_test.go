// Package portable checks that what does not depend on Caddy is right for other systems as well.
package portable

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherSystems checks the types of these packages from their source and that of what they
// import, since compiling it all takes a minute for each system.
func TestOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			check(t, system, "aggregator", "codexrpc", "sse", "internal/gateway", "internal/turn")
		})
	}
}

// listed is a package as `go list -json` describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Standard        bool
	ImportMap       map[string]string // what its imports mean, where that differs
	Error           *struct{ Err string }
}

// check checks directories of this module, with all below them.
func check(t *testing.T, system string, directories ...string) {
	goos, goarch, _ := strings.Cut(system, "/")
	args := []string{"list", "-race=false", "-deps", "-e", "-json=ImportPath,Dir,GoFiles,Standard,ImportMap,Error"}
	for _, directory := range directories {
		args = append(args, "../../../"+directory+"/...")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	checked, ours := map[string]*types.Package{"unsafe": types.Unsafe}, 0
	for decoder := json.NewDecoder(strings.NewReader(string(output))); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Fatal(p.Error.Err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		if checked[p.ImportPath], err = p.check(goarch, checked); err != nil {
			t.Fatal(err)
		}
		if !p.Standard {
			ours++
			_, _ = os.ReadDir(p.Dir) // so that go test does not repeat its result when there is a new file
		}
	}
	if ours < 10 {
		t.Errorf("only %d packages beside the standard library were checked", ours)
	}
}

// check checks a package after those that it imports. Of the standard library only what others
// can see matters.
func (p *listed) check(goarch string, checked map[string]*types.Package) (*types.Package, error) {
	positions, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{IgnoreFuncBodies: p.Standard, Sizes: types.SizesFor("gc", goarch), Importer: imports{p.ImportMap, checked}}
	return config.Check(p.ImportPath, positions, files, nil)
}

// imports finds the packages that a package imports.
type imports struct {
	meaning map[string]string
	checked map[string]*types.Package
}

// Import implements [types.Importer].
func (i imports) Import(path string) (*types.Package, error) {
	if meaning, ok := i.meaning[path]; ok {
		path = meaning
	}
	return i.checked[path], nil
}
