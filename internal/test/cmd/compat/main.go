// Command compat tries releases of Codex: it looks up the stages of the features that this
// project sets, and runs the end-to-end tests. It installs the releases with npm:
//
//	go run ./internal/test/cmd/compat 0.169.0 0.171.0
//
// It prints what it finds, and writes a row for each release into the table of
// docs/dev/codex-releases.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// options are the command's flags.
type options struct {
	cache, table, run, timeout string
	releases                   []string
}

func main() {
	var o options
	flag.StringVar(&o.cache, "cache", ".cache/compat", "where the releases are installed")
	flag.StringVar(&o.table, "table", "docs/dev/codex-releases.md", "the page with the table; empty: none")
	flag.StringVar(&o.run, "run", ".", "the end-to-end tests to run, as for go test; empty: none")
	flag.StringVar(&o.timeout, "timeout", "60m", "how long the tests of each package may take")
	flag.Parse()
	o.releases = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if len(o.releases) == 0 {
		return errors.New("name the releases to try, such as 0.171.0")
	}
	features, err := readFeatures()
	if err != nil {
		return err
	}
	for _, release := range o.releases {
		fmt.Printf("== Codex %s\n", release)
		row, err := try(ctx, o, features, release)
		if err != nil {
			return fmt.Errorf("codex %s: %w", release, err)
		}
		if o.table != "" {
			if err := row.write(o.table); err != nil {
				return err
			}
		}
	}
	return nil
}

func try(ctx context.Context, o options, features []string, release string) (*row, error) {
	codex, err := install(ctx, o.cache, release)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	r := &row{release: release}
	if r.features, err = lacking(ctx, codex, home, features); err != nil {
		return nil, err
	}
	list("features that it has no more, or not yet", r.features)
	if o.run != "" {
		log, err := os.Create(filepath.Join(o.cache, release+".log"))
		if err != nil {
			return nil, err
		}
		r.tests, err = endToEnd(ctx, codex, o.run, o.timeout, log)
		if err = errors.Join(err, log.Close()); err != nil {
			return nil, err
		}
		fmt.Printf("%s; what they print is in %s\n", r.tests, log.Name())
		list("failed", r.tests.failed)
		list("not finished in time", r.tests.unfinished)
	}
	return r, nil
}

func list(what string, found []string) {
	fmt.Printf("%s: %d\n", what, len(found))
	for _, one := range found {
		fmt.Println("  " + one)
	}
}

// install installs a release with npm, unless it is there, and returns the program.
func install(ctx context.Context, cache, release string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(cache, release))
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "node_modules", ".bin", "codex")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", dir, "@openai/codex@"+release)
	npm.Stderr = os.Stderr
	if err := npm.Run(); err != nil {
		return "", fmt.Errorf("npm install: %w", err)
	}
	return program, nil
}

// codexCommand runs codex with a home of its own, and returns what it prints.
func codexCommand(ctx context.Context, codex, home string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, codex, args...)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("codex %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
