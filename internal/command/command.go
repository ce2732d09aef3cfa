// Package command has the subcommands of `caddy codex`, which an operator runs in a shell. They
// read Caddy's configuration, and call the admin API of the running Caddy.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// AppServer is a configured app-server.
type AppServer struct {
	IDs    []string // the ids of its processes, as in /codex/status; at least one
	Config appserver.Config
	number int // the position of the app-server in the configuration, from 1 on
}

// AppServersFunc is a function that returns the app-servers in a Caddy configuration, in order and
// without duplicates. config is JSON. The error says what is wrong with the configuration.
type AppServersFunc func(config []byte) ([]AppServer, error)

func (a *AppServer) title() string { return fmt.Sprintf("app_server %d (%s)", a.number, a.IDs[0]) }

func (a *AppServer) description() string {
	program := filepath.Base(a.Config.Command[0])
	home, err := a.Config.OperatorHome()
	if err != nil || home == "" {
		return program
	}
	return program + ", CODEX_HOME " + home
}

// Group adds subcommands to cmd. Called without a subcommand, cmd shows its help.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) {
	cmd.AddCommand(subcommands...)
	cmd.Args = cobra.NoArgs // else a mistyped subcommand shows the help and succeeds
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// withConfig adds the flags --config and --adapter to a command, and makes the command call run.
// Ctrl-C and SIGTERM cancel the context of run.
func withConfig(cmd *cobra.Command, run func(context.Context, *cobra.Command, caddycmd.Flags) error) *cobra.Command {
	cmd.Flags().StringP("config", "c", "", "Configuration file (default: the Caddyfile of this directory)")
	cmd.Flags().StringP("adapter", "a", "", "Name of the config adapter to apply")
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return caddy.ExitCodeSuccess, run(ctx, cmd, fl) // an error sets another exit code
	})
	return cmd
}

// loadConfig reads the same as readConfig. But without a configuration, it returns an error that advises to
// name one with --config. alternative begins this advice: it says what else the operator can name.
func loadConfig(fl caddycmd.Flags, alternative string) (config []byte, file string, err error) {
	config, file, err = readConfig(fl)
	advice := "; name " + alternative + "the configuration with --config"
	switch {
	case err != nil && fl.String("config") == "":
		err = fmt.Errorf("%w%s", err, advice) // for example, the Caddyfile is wrong, or this user may not read it
	case err == nil && file == "":
		err = errors.New("there is no Caddyfile in this directory" + advice)
	}
	return config, file, err
}

// readConfig reads the configuration that the flags name, or else the Caddyfile of this directory. If
// there is none, file is empty. Caddy's log lines are dropped: they would precede the command's output.
func readConfig(fl caddycmd.Flags) (config []byte, file string, err error) {
	_, log, _ := caddy.BufferedLog()
	defer func() {
		caddy.BufferedLog() // replaces the buffer that has the log lines
		caddy.UnbufferDefaultLogger(log)
	}()
	config, file, _, err = caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	return config, file, err
}

func (configured AppServersFunc) load(fl caddycmd.Flags) ([]AppServer, error) {
	config, file, err := loadConfig(fl, "")
	if err != nil {
		return nil, err
	}
	servers, err := configured(config)
	if err == nil && len(servers) == 0 {
		err = fmt.Errorf("%s has no handler codex", file)
	}
	for i := range servers {
		servers[i].number = i + 1
	}
	return servers, err
}

// choose returns the app-server that the argument names by its number, id or CODEX_HOME. Without an
// argument, it returns the only app-server, or an error if there are several.
func choose(servers []AppServer, args []string) (chosen []AppServer, err error) {
	switch {
	case len(args) > 1:
		return nil, errors.New("name one app_server alone")
	case len(args) == 0 && len(servers) == 1:
		return servers, nil
	}
	wanted := strings.Join(args, "") // args has at most one element
	home, _ := filepath.Abs(wanted)
	for i, s := range servers {
		serverHome, _ := s.Config.OperatorHome()
		if wanted == strconv.Itoa(s.number) || slices.Contains(s.IDs, wanted) || wanted != "" && home == serverHome {
			return servers[i : i+1], nil
		}
	}
	problem := "which app_server? Name"
	if wanted != "" {
		problem = fmt.Sprintf("there is no app_server %q; name", wanted)
	}
	problem += " one by its number, its id or its CODEX_HOME:"
	for i := range servers {
		problem += fmt.Sprintf("\n  %s: %s", servers[i].title(), servers[i].description())
	}
	return nil, errors.New(problem)
}

// withAdmin does what [withConfig] does, and adds a flag for the address of the running Caddy's admin API.
func withAdmin(cmd *cobra.Command, run func(context.Context, *cobra.Command, caddycmd.Flags) error) *cobra.Command {
	cmd.Flags().String("address", "", "Address of the admin API (if it is not the one of the configuration)")
	return withConfig(cmd, run)
}

func adminAddress(fl caddycmd.Flags) (string, error) {
	if address := fl.String("address"); address != "" {
		return address, nil
	}
	config, file, err := readConfig(fl)
	if file == "" && fl.String("config") == "" { // this directory has no Caddyfile that can be used
		return caddycmd.DetermineAdminAPIAddress("", nil, "", "")
	}
	if err != nil {
		return "", err
	}
	var parsed struct {
		Admin caddy.AdminConfig `json:"admin"`
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return "", fmt.Errorf("reading the configuration: %w", err)
	}
	if parsed.Admin.Disabled {
		return "", errors.New("the configuration has no admin API (admin off)")
	}
	return caddycmd.DetermineAdminAPIAddress("", config, file, fl.String("adapter"))
}
