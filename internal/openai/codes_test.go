package openai

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestCodesAreKnown: every code that stands in the source is in the table, and
// has a label of its own.
func TestCodesAreKnown(t *testing.T) {
	found := 0
	for _, dir := range []string{".", "../gateway", "../../caddymodule"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				code, ok := codeIn(n)
				if !ok {
					return true
				}
				found++
				if label := (&Error{Code: code}).Label(); label != code {
					t.Errorf("%s: the code %q is not in the table of codes", name, code)
				}
				return true
			})
		}
	}
	if found < 20 {
		t.Errorf("only %d codes were found", found)
	}
}

// codeIn finds the code that a literal, a constant or an assignment has for an
// error.
func codeIn(n ast.Node) (string, bool) {
	var target, value ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		target, value = n.Key, n.Value
	case *ast.ValueSpec: // a constant such as codeMissing
		if len(n.Values) != 1 || !strings.HasPrefix(n.Names[0].Name, "code") {
			return "", false
		}
		target, value = ast.NewIdent("code"), n.Values[0]
	case *ast.AssignStmt:
		if len(n.Lhs) != 1 {
			return "", false
		}
		target, value = n.Lhs[0], n.Rhs[0]
	default:
		return "", false
	}
	name := ""
	switch target := target.(type) {
	case *ast.Ident:
		name = target.Name
	case *ast.SelectorExpr:
		name = target.Sel.Name
	}
	literal, ok := value.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING || !strings.EqualFold(name, "code") {
		return "", false
	}
	code, err := strconv.Unquote(literal.Value)
	return code, err == nil && code != ""
}

func TestLabels(t *testing.T) {
	for code, want := range map[string]string{
		"codex_queue_full": "codex_queue_full", "": LabelInvalid, "made_up_by_a_provider": LabelOther, "other": LabelOther,
	} {
		if got := (&Error{Code: code}).Label(); got != want {
			t.Errorf("%q is labelled %q, want %q", code, got, want)
		}
	}
}
