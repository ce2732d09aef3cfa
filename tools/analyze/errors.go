package main

import (
	"regexp"
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
)

// unchecked matches the functions whose errors may be ignored without a word: there is nothing to do
// when closing, flushing, removing or printing fails.
var unchecked = regexp.MustCompile(`(\b(Close|Flush|Remove|RemoveAll)|[Pp]rint(f|ln)?)$`)

// uncheckedErrors returns errcheck's analyzer without the functions of unchecked.
func uncheckedErrors(original *analysis.Analyzer) *analysis.Analyzer {
	a := *original
	a.Run = func(pass *analysis.Pass) (any, error) {
		var found []analysis.Diagnostic
		inner := *pass
		inner.Report = func(d analysis.Diagnostic) { found = append(found, d) }
		result, err := original.Run(&inner)
		if err != nil {
			return nil, err
		}
		for i, e := range result.(errcheck.Result).UncheckedErrors { // in the order of found
			if !unchecked.MatchString(e.FuncName) {
				found[i].Message = "the error of " + e.FuncName + " is not checked"
				pass.Report(found[i])
			}
		}
		return result, nil
	}
	return &a
}

// productOnly returns an analyzer that reports nothing about tests and what only they use: tests
// expect exact errors, and fail by later checks.
func productOnly(original *analysis.Analyzer) *analysis.Analyzer {
	a := *original
	a.Run = func(pass *analysis.Pass) (any, error) {
		inner := *pass
		inner.Report = func(d analysis.Diagnostic) {
			file := pass.Fset.Position(d.Pos).Filename
			if !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/internal/test/e2e/") {
				pass.Report(d)
			}
		}
		return original.Run(&inner)
	}
	return &a
}
