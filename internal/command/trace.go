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
	"slices"
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
	}, showTrace)
	cmd.Flags().Bool("json", false, "Writes the list as JSON, or the recording as it is")
	on := withAdmin(&cobra.Command{Use: "on", Short: "Records the next requests", Args: cobra.NoArgs}, traceOn)
	on.Flags().String("key", "", "Only requests with the key of this id")
	on.Flags().String("user", "", "Only requests of this user")
	on.Flags().Int("requests", 10, "How many requests; 0: any number")
	on.Flags().Duration("for", time.Hour, "How long")
	on.Flags().Bool("texts", false, "Also records the texts of the requests and answers")
	cmd.AddCommand(on, withAdmin(&cobra.Command{Use: "off", Short: "Ends what trace on and the page have begun", Args: cobra.NoArgs}, traceOff))
	return cmd
}

func traceOn(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	body, _ := json.Marshal(map[string]any{
		"key": fl.String("key"), "user": fl.String("user"), "requests": fl.Int("requests"),
		"minutes": fl.Duration("for").Minutes(), "texts": fl.Bool("texts"),
	})
	var list recorder.List
	err := callAdmin(ctx, fl, http.MethodPost, "/codex/trace", nil, bytes.NewReader(body), &list)
	return errors.Join(err, writeList(cmd.OutOrStdout(), nil, list.Switches))
}

func traceOff(ctx context.Context, _ *cobra.Command, fl caddycmd.Flags) error {
	return callAdmin(ctx, fl, http.MethodDelete, "/codex/trace", nil, nil, new(recorder.List))
}

func showTrace(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	path, text, err := "/codex/trace", []byte(nil), fs.ErrNotExist
	if fl.NArg() > 0 {
		path += "?id=" + url.QueryEscape(fl.Arg(0))
		text, err = os.ReadFile(fl.Arg(0))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = callAdmin(ctx, fl, http.MethodGet, path, nil, nil, &text)
	}
	out := cmd.OutOrStdout()
	switch {
	case err != nil:
		return err
	case fl.Bool("json"):
		_, err = out.Write(text)
		return err
	case fl.NArg() == 0:
		var list recorder.List
		err = json.Unmarshal(text, &list)
		return errors.Join(err, writeList(out, list.Recordings, list.Switches))
	}
	entries, err := recorder.Parse(text)
	if err == nil {
		width, _, noTerminal := term.GetSize(int(os.Stdout.Fd()))
		writeTimeline(out, recorder.NewTimeline(entries), width, noTerminal == nil && os.Getenv("NO_COLOR") == "")
	}
	return err
}

// writeList writes tables of recordings and of what is switched on.
func writeList(out io.Writer, recordings []*recorder.Recording, switches []recorder.Switch) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, r := range recordings {
		if i == 0 {
			fmt.Fprintln(table, "request\ttime\tuser\tkey\tpath\ttook\tbytes\tended")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%d\t%s\n", printable(r.ID), r.Time.Local().Format(time.DateTime), printable(r.User), printable(r.Key),
			printable(r.Path), recorder.Millis(r.Duration*float64(time.Second)), r.Bytes, cmp.Or(printable(r.Code), "complete"))
	}
	for _, s := range switches {
		fmt.Fprintf(table, "recorded until %s: user %s, key %s, requests %d, texts %t\n", s.Until.Local().Format(time.DateTime),
			cmp.Or(printable(s.User), "(any)"), cmp.Or(printable(s.Key), "(any)"), s.Requests, s.Texts)
	}
	return table.Flush()
}

// phaseColors are the ANSI colors of phases.
var phaseColors = map[string]string{"model": "34", "codex": "36", "queue": "33", "prepare": "32", "finish": "32", "client": "35"}

// writeTimeline writes how a request ended, a bar for each phase that fits width, and the rows.
func writeTimeline(out io.Writer, t recorder.Timeline, width int, colors bool) {
	paint := func(color, text string) string {
		if !colors {
			return text
		}
		return "\x1b[" + color + "m" + text + "\x1b[0m"
	}
	outcome := paint("1;32", "complete")
	if t.Code != "" {
		outcome = paint("1;31", printable(t.Code))
	}
	fmt.Fprintf(out, "%s  %s  %v\n%s: %s\n\n", printable(t.Head.RequestID), t.Head.Time.Local().Format(time.DateTime), t.Duration, outcome, t.Cause)
	cells := recorder.Millis(max(20, cmp.Or(width, 100)-32))
	var names []string
	for _, p := range t.Phases {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	for _, name := range names {
		bar, sum := []rune(strings.Repeat(" ", int(cells))), recorder.Millis(0)
		for _, p := range t.Phases {
			if p.Name == name {
				sum += p.End - p.Begin
				for i := p.Begin * cells / t.Duration; i <= (p.End-1)*cells/t.Duration; i++ {
					bar[i] = '█'
				}
			}
		}
		fmt.Fprintf(out, "%-8s %s %9v %3d %%\n", name, paint(phaseColors[name], string(bar)), sum, sum*100/t.Duration)
	}
	fmt.Fprintln(out)
	last := recorder.Millis(0)
	for _, r := range t.Rows {
		pause := strings.Repeat(" ", 10)
		if r.At-last > t.Duration/10 {
			pause = paint("1;33", fmt.Sprintf("%10s", "+"+(r.At-last).String()))
		}
		last = max(last, r.Until)
		choice := ""
		if r.Choice > 0 {
			choice = fmt.Sprintf("[%d] ", r.Choice)
		}
		fmt.Fprintf(out, "%10v %s %-12s %s%s\n", r.At, pause, strings.ReplaceAll(string(r.Kind), "_", " "), choice, printable(r.Text))
	}
}

// printable returns a text that clients, the model or Codex wrote, with an escape for all that is no letter,
// number or sign.
func printable(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
