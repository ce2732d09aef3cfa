// Command portable checks that what does not depend on Caddy is right for other systems, too. It
// checks types from the source, with all imports, since compiling takes a minute a system:
//
//	go run ./internal/test/cmd/portable
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		fmt.Println(system)
		if err := check(system, "aggregator", "codexrpc", "sse", "internal/gateway", "internal/turn"); err != nil {
			fmt.Fprintln(os.Stderr, "portable:", err)
			os.Exit(1)
		}
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
func check(system string, directories ...string) error {
	goos, goarch, _ := strings.Cut(system, "/")
	args := []string{"list", "-race=false", "-deps", "-e", "-json=ImportPath,Dir,GoFiles,Standard,ImportMap,Error"}
	for _, directory := range directories {
		args = append(args, "./"+directory+"/...")
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	checked, ours := map[string]*types.Package{"unsafe": types.Unsafe}, 0
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.Error != nil {
			return errors.New(p.Error.Err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		if checked[p.ImportPath], err = p.check(goarch, checked); err != nil {
			return err
		}
		if !p.Standard {
			ours++
		}
	}
	if ours < len(directories) {
		return fmt.Errorf("only %d packages beside the standard library were found", ours)
	}
	return nil
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
