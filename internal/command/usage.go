package command

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Usage returns the command `caddy codex usage`.
func Usage() *cobra.Command {
	cmd := withAdmin(&cobra.Command{
		Use:   "usage [--since <when>] [--csv] [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Shows who has used how much, also of each window of a plan",
		Long: `
Asks the Caddy that runs, by its admin API, for the usage by key, model, API and
meter, and for how many percent of each window of a plan each key has used.`,
		Args: cobra.NoArgs,
	}, showUsage)
	cmd.Flags().String("since", "", "A date in UTC, or a duration such as 7d (default: all)")
	cmd.Flags().Bool("csv", false, "Writes CSV")
	return cmd
}

func showUsage(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	var account usage.Account
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/usage?since="+url.QueryEscape(fl.String("since")), nil, &account); err != nil {
		return err
	}
	if fl.Bool("csv") {
		return csv.NewWriter(cmd.OutOrStdout()).WriteAll(usageRows(&account))
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, row := range usageRows(&account) {
		for _, cell := range row {
			fmt.Fprint(table, strings.Trim(strconv.Quote(cell), `"`), "\t") // clients may put anything into the name of a model
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// usageRows returns the table of a usage: its head, a row for each part, and one for each share of a window.
func usageRows(a *usage.Account) [][]string {
	rows := [][]string{strings.Fields("kind name requests turns errors input cached output reasoning pictures refusals percent resets")}
	kinds := []string{"key", "model", "api", "meter"}
	for i, parts := range [][]usage.Part{a.ByKey, a.ByModel, a.ByAPI, a.ByMeter} {
		for _, p := range parts {
			row := []string{kinds[i], p.Name}
			for _, n := range []int64{
				p.Requests, p.Turns, p.Errors, p.Tokens.InputTokens, p.Tokens.CachedInputTokens,
				p.Tokens.OutputTokens, p.Tokens.ReasoningOutputTokens, p.Pictures,
			} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			var refusals []string
			for _, reason := range slices.Sorted(maps.Keys(p.Refusals)) {
				refusals = append(refusals, fmt.Sprint(p.Refusals[reason], " ", reason))
			}
			rows = append(rows, append(row, strings.Join(refusals, ", "), "", ""))
		}
	}
	for _, w := range a.Windows {
		kind := fmt.Sprintf("window %s %s %s", w.Login, w.Meter, time.Duration(w.Length)*time.Second)
		resets := time.Unix(w.Resets, 0).UTC().Format(time.RFC3339)
		for _, key := range slices.Sorted(maps.Keys(w.ByKey)) {
			rows = append(rows, []string{kind, key, "", "", "", "", "", "", "", "", "", fmt.Sprintf("%.2f", w.ByKey[key]), resets})
		}
		rows = append(rows, []string{kind, "(elsewhere)", "", "", "", "", "", "", "", "", "", fmt.Sprintf("%.2f", w.Elsewhere), resets})
	}
	return rows
}
