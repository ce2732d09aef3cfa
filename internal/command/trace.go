package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// Trace returns the command `caddy codex trace`.
func Trace() *cobra.Command {
	cmd := withAdmin(&cobra.Command{
		Use:   "trace [<request id> | <file>] [--json] [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Lists the recordings of requests, or shows where the time of one went and how it ended",
		Args:  cobra.MaximumNArgs(1),
	}, trace)
	cmd.PersistentFlags().Bool("json", false, "Writes the list as JSON, or the recording as it is")
	on := withAdmin(&cobra.Command{Use: "on", Short: "Records the next requests", Args: cobra.NoArgs}, trace)
	on.Flags().String("key", "", "Only requests with the key of this id")
	on.Flags().String("user", "", "Only requests of this user")
	on.Flags().Int("requests", 10, "How many requests; 0: any number")
	on.Flags().Duration("for", time.Hour, "How long")
	on.Flags().Bool("texts", false, "Also records the texts of the requests and answers")
	cmd.AddCommand(on, withAdmin(&cobra.Command{Use: "off", Short: "Ends what trace on and the page have begun", Args: cobra.NoArgs}, trace))
	return cmd
}

func trace(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	path, body, text, err := "/codex/trace", io.Reader(nil), []byte(nil), fs.ErrNotExist
	if cmd.Name() == "on" {
		encoded, _ := json.Marshal(map[string]any{
			"key": fl.String("key"), "user": fl.String("user"), "requests": fl.Int("requests"), "minutes": fl.Duration("for").Minutes(), "texts": fl.Bool("texts"),
		})
		body = bytes.NewReader(encoded)
	} else if fl.NArg() > 0 {
		path += "?id=" + url.QueryEscape(fl.Arg(0))
		text, err = os.ReadFile(fl.Arg(0))
	}
	if errors.Is(err, fs.ErrNotExist) {
		method := map[string]string{"trace": http.MethodGet, "on": http.MethodPost, "off": http.MethodDelete}[cmd.Name()]
		if err = callAdmin(ctx, fl, method, path, nil, body, &text); err != nil && fl.NArg() > 0 {
			err = fmt.Errorf("there is no file %q: %w", fl.Arg(0), err)
		}
	}
	switch {
	case err != nil:
	case fl.Bool("json"):
		_, err = cmd.OutOrStdout().Write(text)
	case fl.NArg() == 0:
		err = writeList(cmd.OutOrStdout(), text)
	default:
		entries, parseErr := recorder.Parse(text)
		timeline := recorder.NewTimeline(entries)
		if v := timeline.Head.Version; v != recorder.Version {
			return cmp.Or(parseErr, fmt.Errorf("this is no recording of a request in version %d of the format: the head has version %d", recorder.Version, v))
		}
		width, _, noTerminal := term.GetSize(int(os.Stdout.Fd()))
		writeTimeline(cmd.OutOrStdout(), timeline, width, noTerminal == nil && os.Getenv("NO_COLOR") == "")
	}
	return err
}

// writeList writes a [recorder.List], which is JSON, as a table.
func writeList(out io.Writer, text []byte) error {
	var list recorder.List
	err := json.Unmarshal(text, &list)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "request\ttime\tuser\tkey\tpath\ttook\tended")
	for _, r := range list.Recordings {
		took := recorder.Millis(r.Duration * float64(time.Second))
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%s\n", printable(r.ID), r.Time.Local().Format(time.DateTime), printable(r.User), printable(r.Key), printable(r.Path), took, cmp.Or(printable(r.Code), "complete"))
	}
	for _, s := range list.Switches {
		fmt.Fprintf(table, "(recorded)\tuntil %s\t%s\t%s\trequests: %d\ttexts: %t\n", s.Until.Local().Format(time.DateTime), printable(s.User), printable(s.Key), s.Requests, s.Texts)
	}
	return errors.Join(err, table.Flush())
}

// writeTimeline writes how a request ended, a bar for each phase that fits width, and the rows.
func writeTimeline(out io.Writer, t recorder.Timeline, width int, colors bool) {
	paint := "%[2]s"
	if colors {
		paint = "\x1b[%dm%s\x1b[0m"
	}
	ended := fmt.Sprintf(paint, 1, cmp.Or(printable(t.Code), "complete"))
	fmt.Fprintf(out, "%s  %s  %v\n%s: %s\n\n", printable(t.Head.RequestID), t.Head.Time.Local().Format(time.DateTime), t.Duration, ended, t.Cause)
	cells := recorder.Millis(max(20, cmp.Or(width, 100)-32))
	for i, name := range []string{"client", "prepare", "queue", "codex", "model", "finish"} {
		bar, sum := []rune(strings.Repeat(" ", int(cells))), recorder.Millis(0)
		for _, p := range t.Phases {
			if p.Name == name {
				sum += p.End - p.Begin
				for cell := p.Begin * cells / t.Duration; cell <= (p.End-1)*cells/t.Duration; cell++ {
					bar[cell] = '█'
				}
			}
		}
		fmt.Fprintf(out, "%-8s %s %9v %3d %%\n", name, fmt.Sprintf(paint, 31+i, string(bar)), sum, sum*100/max(1, t.Duration))
	}
	last := recorder.Millis(0)
	for _, r := range t.Rows {
		pause := fmt.Sprintf(paint, 33, fmt.Sprintf("+%v", r.At-last))
		if r.At-last < max(1, t.Duration/10) {
			pause = ""
		}
		last = r.At
		fmt.Fprintf(out, "\n%10v %d %-11s %s %s", r.At, r.Choice, r.Kind, printable(r.Text), pause)
	}
	fmt.Fprintln(out)
}

// printable returns a text that clients, the model or Codex wrote, with escapes for what terminals would obey.
func printable(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
