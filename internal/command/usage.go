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

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Usage returns the command `caddy codex usage`.
func Usage() *cobra.Command {
	cmd := withAdmin(&cobra.Command{
		Use:   "usage [--since <when>] [--csv] [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Shows the usage by key, model, API and meter, and the percents of each window of a plan by key",
		Args:  cobra.NoArgs,
	}, showUsage)
	cmd.Flags().String("since", "", "A date in UTC, or a duration such as 7d (default: all)")
	cmd.Flags().Bool("csv", false, "Writes CSV")
	return cmd
}

func showUsage(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	var account usage.Account
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/usage?since="+url.QueryEscape(fl.String("since")), nil, nil, &account); err != nil {
		return err
	}
	rows := usageRows(&account)
	if fl.Bool("csv") {
		return csv.NewWriter(cmd.OutOrStdout()).WriteAll(rows)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// usageRows returns the table of a usage: its head, a row for each part, and one for each share of a window.
func usageRows(a *usage.Account) (rows [][]string) {
	add := func(values ...any) {
		row := make([]string, len(values))
		for i, value := range values {
			text := strconv.Quote(fmt.Sprint(value)) // clients may put anything into the name of a model
			row[i] = text[1 : len(text)-1]
			if strings.IndexAny(row[i], "=+-@") == 0 {
				row[i] = "'" + row[i] // else a spreadsheet runs it as a formula
			}
		}
		rows = append(rows, row)
	}
	add("kind", "name", "requests", "turns", "errors", "input", "cached", "output", "reasoning", "pictures", "refusals", "percent", "resets")
	kinds := []string{"key", "model", "api", "meter"}
	for i, parts := range [][]usage.Part{a.ByKey, a.ByModel, a.ByAPI, a.ByMeter} {
		for _, p := range parts {
			refusals := strings.Trim(strings.TrimPrefix(fmt.Sprint(p.Refusals), "map"), "[]")
			add(kinds[i], p.Name, p.Requests, p.Turns, p.Errors, p.Tokens.InputTokens, p.Tokens.CachedInputTokens,
				p.Tokens.OutputTokens, p.Tokens.ReasoningOutputTokens, p.Pictures, refusals, "", "")
		}
	}
	for _, w := range a.Windows {
		w.ByKey["(others)"] += w.Others
		for _, key := range slices.Sorted(maps.Keys(w.ByKey)) {
			length := codexrpc.RateWindow{Window: time.Duration(w.Length) * time.Second}
			add(fmt.Sprintf("%s %s %s", w.Login, w.Meter, length.Name()), key, "", "", "", "", "", "", "", "", "", fmt.Sprintf("%.2f", w.ByKey[key]), time.Unix(w.Resets, 0).UTC().Format(time.RFC3339))
		}
	}
	return rows
}
