// Command outages starts, reloads and kills a Caddy with the real codex and a login while the back end
// of its plan fails in each way, and prints a table of what a request gets meanwhile, and how long after
// the end of that the next answer comes:
//
//	go run ./internal/test/cmd/outages
//
// It exits with 1 if an answer came too late or the login was lost. It runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// options are the command's flags.
type options struct {
	rig.Programs
	repeat int
	only   string
}

func main() {
	var o options
	flag.IntVar(&o.repeat, "repeat", 3, "how often each is done")
	flag.StringVar(&o.only, "only", "", "only the outage with this name")
	rig.Main("outages", func(ctx context.Context, programs rig.Programs) error {
		o.Programs = programs
		return run(ctx, o)
	})
}

// run prints a line for each outage and what happens in it. Its error says what was too late.
func run(ctx context.Context, o options) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "outage\twhat happens in it\tready again after\ta request in it\tthe next answer after its end")
	var errs []error
	for _, out := range outages {
		if o.only != "" && o.only != out.name {
			continue
		}
		for _, what := range happenings {
			var all cell
			for range o.repeat {
				one, err := try(ctx, o, out, what)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s, %s: %w", out.name, what.name, err))
				}
				all.add(one)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s: %s\t%s\n", out.name, what.name, all.ready, all.codes, all.during, all.after)
		}
	}
	return errors.Join(append(errs, table.Flush(), ctx.Err())...)
}
