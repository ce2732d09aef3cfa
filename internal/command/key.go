package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
)

// KeyFilesFunc returns the files of API keys that a configuration (JSON) names, without duplicates.
type KeyFilesFunc func(config []byte) ([]string, error)

// Key returns the command `caddy codex key`.
func Key(configured KeyFilesFunc) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key <command>",
		Short: "Makes, lists and revokes API keys in a file (api_keys_file)",
	}
	Group(cmd, configured.add(), configured.list(), configured.revoke())
	return cmd
}

// withKeyFile adds the flag --file to cmd, and makes it call run with the chosen file of keys.
func (configured KeyFilesFunc) withKeyFile(cmd *cobra.Command, run func(cmd *cobra.Command, file string, args []string) error) *cobra.Command {
	cmd.Flags().StringP("file", "f", "", "File of keys (default: the api_keys_file of the configuration)")
	return withConfig(cmd, func(_ context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
		file, err := configured.choose(fl)
		if err != nil {
			return err
		}
		return withPermissionAdvice(run(cmd, file, fl.Args()))
	})
}

func withPermissionAdvice(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run this as the user that Caddy runs as, for example with sudo -u caddy-codex, and keep the file in a directory of that user", err)
	}
	return err
}

// ownerWarning returns a warning if only root can read the file of keys; else it returns "". As a
// service, Caddy runs as another user and could not read such a file.
func ownerWarning(file string) string {
	if !apikeys.OnlyRootReads(file) {
		return ""
	}
	return fmt.Sprintf("Only root can read %s. Give it to the user that Caddy runs as: chown caddy-codex %s\n", file, file)
}

// choose returns the file of keys that the flags name, or else the only file in the configuration.
func (configured KeyFilesFunc) choose(fl caddycmd.Flags) (string, error) {
	if file := fl.String("file"); file != "" {
		return filepath.Abs(file)
	}
	config, name, err := loadConfig(fl, "the file of keys with --file, or ")
	if err != nil {
		return "", err
	}
	files, err := configured(config)
	switch {
	case err != nil:
		return "", err
	case len(files) == 0:
		return "", fmt.Errorf("%s has no api_keys_file; name the file of keys with --file", name)
	case len(files) > 1:
		return "", fmt.Errorf("%s has several files of keys; name one with --file: %s", name, strings.Join(files, ", "))
	}
	return files[0], nil
}

func (configured KeyFilesFunc) add() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add <id> [--user <name>] [--expires <when>] [--models <models>] [--max-concurrent <n>] [--requests <n>/<window>] [--tokens <n>/<window>] [--plan-share <percent> [--lend on]]",
		Short: "Makes a key, and prints it once",
		Long: `
Makes a key and adds its hash to the file. The key itself is printed, and stored
nowhere. A Caddy that runs takes the change by itself.`,
		Example: "caddy codex key add alice-laptop --user alice --expires 90d --requests 60/1m --tokens 500000/5h",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.String("user", "", "Name of the user (default: the id)")
	flags.String("expires", "", "A date, a time, or a duration such as 90d")
	flags.StringSlice("models", nil, "Models that the key may use (default: all)")
	flags.String("max-concurrent", "", "How many turns may run at once")
	flags.String("plan-share", "", "How much of each window of the plan the key may use, such as 20%")
	flags.String("lend", "", "on: other keys may use what the key leaves of its share")
	flags.StringArray("requests", nil, "A limit of requests, such as 60/1m or 1000/day; may be repeated")
	flags.StringArray("tokens", nil, "A limit of tokens, such as 500000/5h; may be repeated")
	return configured.withKeyFile(cmd, func(cmd *cobra.Command, file string, args []string) error {
		options, err := keyOptions(cmd)
		if err != nil {
			return err
		}
		key, err := apikeys.Add(file, args[0], options)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The key %s, which cannot be shown again, was added to %s:\n", args[0], file)
		fmt.Fprintln(cmd.OutOrStdout(), key)
		fmt.Fprint(cmd.ErrOrStderr(), ownerWarning(file))
		return nil
	})
}

// keyOptions returns the flags' options for a key. An empty flag is an error: an unset shell
// variable would make a key for all models, or one that never expires.
func keyOptions(cmd *cobra.Command) (options []apikeys.Option, err error) {
	flags := cmd.Flags()
	for _, name := range []string{"user", "expires", "models", "max-concurrent", "plan-share", "lend"} {
		if flag := flags.Lookup(name); flag.Changed && (flag.Value.String() == "" || flag.Value.String() == "[]") { // []: --models
			return nil, fmt.Errorf("--%s is empty; leave it out for its default", name)
		}
	}
	for _, name := range []string{"user", "expires", "max-concurrent", "plan-share", "lend"} {
		value, _ := flags.GetString(name)
		if length, err := caddy.ParseDuration(value); err == nil && name == "expires" {
			value = time.Now().Add(length).UTC().Format(time.RFC3339)
		}
		if value != "" {
			options = append(options, apikeys.Option{strings.ReplaceAll(name, "-", "_"), value})
		}
	}
	if models, _ := flags.GetStringSlice("models"); len(models) > 0 {
		options = append(options, append(apikeys.Option{"models"}, models...))
	}
	for _, unit := range []string{"requests", "tokens"} {
		limits, _ := flags.GetStringArray(unit)
		for _, limit := range limits {
			n, window, ok := strings.Cut(limit, "/")
			if !ok {
				return nil, fmt.Errorf("--%s takes a number and a window, such as 1000/day", unit)
			}
			options = append(options, apikeys.Option{unit, n, window})
		}
	}
	return options, nil
}

func (configured KeyFilesFunc) list() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Lists the keys of the file", Args: cobra.NoArgs}
	return configured.withKeyFile(cmd, func(cmd *cobra.Command, file string, _ []string) error {
		keys, err := apikeys.Open(file, nil)
		if err != nil {
			return err
		}
		return writeKeys(cmd.OutOrStdout(), keys.Set().Keys, time.Now())
	})
}

func writeKeys(out io.Writer, keys []*apikeys.Key, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tUSER\tEXPIRES\tMODELS\tLIMITS")
	for _, k := range keys {
		expires, models := "never", "all"
		if !k.Expires.IsZero() {
			expires = k.Expires.UTC().Format(time.RFC3339)
		}
		if k.Expired(now) {
			expires += " (expired)"
		}
		if k.Models != nil {
			models = strings.Join(k.Models, " ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.ID, k.User, expires, models, limitsText(k))
	}
	return table.Flush()
}

func limitsText(k *apikeys.Key) string {
	var limits []string
	if k.MaxConcurrent > 0 {
		limits = append(limits, fmt.Sprintf("%d at once", k.MaxConcurrent))
	}
	for _, l := range k.Limits {
		limits = append(limits, fmt.Sprintf("%d %s/%s", l.Max, l.Unit, l.Window))
	}
	if k.PlanShare > 0 {
		limits = append(limits, fmt.Sprintf("%g%% of the plan", float64(k.PlanShare)/10))
	}
	if k.Lends {
		limits = append(limits, "lends")
	}
	return cmp.Or(strings.Join(limits, ", "), "none")
}

func (configured KeyFilesFunc) revoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke <id>...",
		Short: "Removes keys from the file",
		Long: `
Removes the entries of keys from the file. A Caddy that runs refuses the keys
within seconds; answers that have begun continue.`,
		Args: cobra.MinimumNArgs(1),
	}
	return configured.withKeyFile(cmd, func(cmd *cobra.Command, file string, args []string) error {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(args))) {
			if err := apikeys.Revoke(file, id); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The key %s was removed from %s.\n", id, file)
		}
		return nil
	})
}
