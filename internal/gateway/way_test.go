package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// wayLine is a line of the ways in docs/architecture.md that names a function.
var wayLine = regexp.MustCompile(`(?m)^ {4}(\w+)\.((?:\w+\.)?\w+)(?: |$)`)

// TestWayOfARequest: the functions that docs/architecture.md lists exist.
func TestWayOfARequest(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	must.OK(t, err)
	_, way, found := strings.Cut(string(text), "## The way of a request\n")
	way, _, ended := strings.Cut(way, "\n## ")
	lines := wayLine.FindAllStringSubmatch(way, -1)
	if !found || !ended || len(lines) < 40 {
		t.Fatalf("the way has %d functions", len(lines))
	}
	packages := make(map[string]map[string]bool)
	for _, line := range lines {
		name, function := line[1], line[2]
		if packages[name] == nil {
			packages[name] = functionsOf(t, root, name)
		}
		if !packages[name][function] {
			t.Errorf("there is no %s.%s", name, function)
		}
	}
}

// functionsOf returns the names of a package's functions, and TYPE.METHOD of its
// methods.
func functionsOf(t *testing.T, root, name string) map[string]bool {
	t.Helper()
	functions := make(map[string]bool)
	for _, parent := range []string{"", "internal", "codexrpc", "aggregator"} {
		files, err := filepath.Glob(filepath.Join(root, parent, name, "*.go"))
		must.OK(t, err)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			must.OK(t, err)
			for _, declaration := range parsed.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok {
					functions[receiverOf(f)+f.Name.Name] = true
				}
			}
		}
	}
	return functions
}

// receiverOf returns the type of a method's receiver and a dot, or an empty string.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if named, ok := receiver.(*ast.Ident); ok {
		return named.Name + "."
	}
	return ""
}
