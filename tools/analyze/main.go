// Command analyze is the linter. It runs the analyzers of staticcheck and of go vet, and two that
// look for errors that are ignored or compared in the wrong way. In one program they parse and type
// each package once:
//
//	analyze ./...
package main

import (
	"os"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	cmd := lintcmd.NewCommand("analyze")
	cmd.ParseFlags(os.Args[1:])
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(vet.Suite...)
	cmd.AddBareAnalyzers(productOnly(uncheckedErrors(errcheck.Analyzer)), productOnly(errorlint.NewAnalyzer()))
	cmd.Run()
}
