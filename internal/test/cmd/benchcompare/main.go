// Command benchcompare runs the benchmarks of the stages of a request at another commit and
// in this directory, and compares what they count: allocations, their bytes and, if Valgrind
// is installed, instructions. It fails if a stage costs more than there.
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
	"text/tabwriter"
)

func main() {
	base := flag.String("base", "HEAD^", "the commit to compare with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *base); err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare:", err)
		os.Exit(1)
	}
}

// compare measures both trees and prints a table.
func compare(ctx context.Context, base string) error {
	here, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	commit, err := git(ctx, "rev-parse", "--verify", base+"^{commit}")
	if err != nil {
		return err
	}
	cache := filepath.Join(here, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cache, "bench-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	before := &tree{dir: filepath.Join(dir, "base"), programs: filepath.Join(dir, "base-programs")}
	after := &tree{dir: here, programs: filepath.Join(dir, "programs")}
	if _, err := git(ctx, "worktree", "add", "--detach", before.dir, commit); err != nil {
		return err
	}
	defer func() { _, _ = git(context.WithoutCancel(ctx), "worktree", "remove", "--force", before.dir) }()
	if valgrind, err := exec.LookPath("valgrind"); err == nil {
		before.valgrind, after.valgrind = valgrind, valgrind
	} else {
		fmt.Println("Instructions are not counted: valgrind is not installed.")
	}
	fmt.Printf("This directory, compared with %s:\n\n", commit)
	return table(ctx, before, after)
}

// table measures all stages, and prints a line for each.
func table(ctx context.Context, before, after *tree) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "stage\tallocs/op\tB/op\tinstructions/op\t")
	worse := 0
	for _, s := range stages {
		name := s.pkg + " " + s.bench
		now, found, err := after.measure(ctx, s)
		if err == nil && !found {
			err = fmt.Errorf("%s: there is no such benchmark", name)
		}
		if err != nil {
			return err
		}
		was, found, err := before.measure(ctx, s)
		if err != nil {
			return err
		}
		if !found {
			was = now
			name += " (new)"
		}
		verdict := ""
		if costsMore(was, now) {
			worse++
			verdict = "MORE"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name,
			change(was.allocs, now.allocs), change(was.bytes, now.bytes), change(was.instructions, now.instructions), verdict)
	}
	if worse > 0 {
		return fmt.Errorf("%d stages cost more than before", worse)
	}
	return nil
}

// costsMore reports whether a stage costs more than before, beyond what goroutines, pools and the
// seeds of maps change by chance. Below a hundred allocations, one more is too many.
func costsMore(was, now counts) bool {
	return now.allocs-was.allocs >= max(1, was.allocs/100) ||
		now.bytes-was.bytes > 32+was.bytes/20 ||
		now.instructions-was.instructions > 50+was.instructions/20
}

func change(was, now float64) string {
	if was == now || was == 0 {
		return fmt.Sprintf("%.0f → %.0f", was, now)
	}
	return fmt.Sprintf("%.0f → %.0f (%+.1f %%)", was, now, 100*(now-was)/was)
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
