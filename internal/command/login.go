package command

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// Login returns the command `caddy codex login`.
func Login(configured AppServersFunc) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login [<app_server>] [--with-api-key] [--config <path> [--adapter <name>]] [--address <admin>]",
		Short: "Signs an app-server in",
		Long: `
Signs an app-server in with codex login, in the CODEX_HOME that it uses: with a code
for a browser on any device, or with an API key from standard input. An app-server is
named by its number in the configuration, its id or its CODEX_HOME. A Caddy that runs
uses the new login at once. Run it as the user that Caddy runs as.`,
	}
	cmd.Flags().BoolP("with-api-key", "", false, "Read an API key from standard input")
	return withAdmin(cmd, func(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
		flag := "--device-auth"
		if fl.Bool("with-api-key") {
			flag = "--with-api-key"
		}
		return configured.runForLogin(ctx, cmd, fl, "Signing in", "Signed in", "login", flag)
	})
}

// Logout returns the command `caddy codex logout`.
func Logout(configured AppServersFunc) *cobra.Command {
	return withAdmin(&cobra.Command{
		Use:   "logout [<app_server>] [--config <path> [--adapter <name>]] [--address <admin>]",
		Short: "Signs an app-server out",
		Long: `
Signs an app-server out with codex logout, which removes the login from the CODEX_HOME
that it uses. An app-server is named as for caddy codex login. A Caddy that runs uses
the login for no new request. Run it as the user that Caddy runs as.`,
	}, func(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
		return configured.runForLogin(ctx, cmd, fl, "Signing out", "Signed out", "logout")
	})
}

// Restart returns the command `caddy codex restart`.
func Restart() *cobra.Command {
	return withAdmin(&cobra.Command{
		Use:   "restart [<id>] [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Replaces app-servers without ending their turns",
		Long: `
Replaces all app-servers of the Caddy that runs by new ones, or the one with the id, as
in caddy codex status, which shows the old one until the new one is ready. Turns that run go on.`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
		restarted, err := restartAll(ctx, fl, fl.Args())
		if len(restarted) > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "Being replaced, usually within seconds: "+strings.Join(restarted, ", "))
		} else if err == nil {
			err = fmt.Errorf("the Caddy that runs has no app-server %s; see caddy codex status", cmp.Or(strings.Join(fl.Args(), ""), "at all"))
		}
		return err
	})
}

// runForLogin runs a command of codex that changes the login of an app-server. Then it restarts this
// app-server in the running Caddy, so that the new login, or no login any more, is used. doing and done
// say in messages what the command does, such as "Signing in" and "Signed in".
func (configured AppServersFunc) runForLogin(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags, doing, done, command string, args ...string) error {
	servers, err := configured.load(fl)
	if err != nil {
		return err
	}
	chosen, err := choose(servers, fl.Args())
	if err != nil {
		return err
	}
	server := &chosen[0]
	login, err := server.Config.LoginCommand(ctx, command, args...)
	if err != nil {
		return err
	}
	home, err := server.Config.OperatorHome()
	if err == nil && home != "" {
		err = os.MkdirAll(home, 0o700)
	}
	if err != nil {
		return fmt.Errorf("making the CODEX_HOME: %w", err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s %s: %s\n", doing, server.title(), server.description())
	login.Stdin, login.Stdout, login.Stderr = cmd.InOrStdin(), out, cmd.ErrOrStderr()
	if err := login.Run(); err != nil {
		return fmt.Errorf("codex %s: %w", command, err)
	}
	restarted, err := restartAll(ctx, fl, server.IDs)
	switch {
	case err != nil:
		fmt.Fprintf(out, "%s. Whether a Caddy runs with this app-server is not known (%v).\n", done, err)
	case len(restarted) == 0:
		fmt.Fprintln(out, done+". The Caddy that runs has no such app-server; load its configuration.")
	default:
		fmt.Fprintln(out, done+". The Caddy that runs uses it now; `caddy codex status` shows how it does.")
	}
	return nil
}

// restartAll replaces the app-servers of the running Caddy that have these ids, or all if ids is empty. It
// returns the ids of the replaced app-servers.
func restartAll(ctx context.Context, fl caddycmd.Flags, ids []string) (restarted []string, err error) {
	var document status.Document
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/status", nil, nil, &document); err != nil {
		return nil, err
	}
	for _, s := range document.AppServers {
		if len(ids) > 0 && !slices.Contains(ids, s.ID) {
			continue
		}
		restartErr := restartOne(ctx, fl, s.ID)
		if err = errors.Join(err, restartErr); restartErr == nil {
			restarted = append(restarted, s.ID)
		}
	}
	return restarted, err
}

// restartTimeout is how long restartOne waits for an app-server that is still starting. Such an
// app-server may have read the old login, so it must be replaced, but only after its start.
const restartTimeout = 15 * time.Second

func restartOne(ctx context.Context, fl caddycmd.Flags, id string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	for {
		var answer any
		err := callAdmin(ctx, fl, http.MethodPost, "/codex/restart?app_server="+url.QueryEscape(id), nil, nil, &answer)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(restartTimeout / 60):
		case <-ctx.Done():
			return err
		}
	}
}

// Credit returns the command `caddy codex credit`.
func Credit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "credit [<id>] [--yes] [--attempt <name>] [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Resets the windows of a plan for a banked credit",
		Long: `
Resets the windows of the plan of an app-server's login for one of its banked reset
credits, by the admin API of the Caddy that runs. The app-server is named by its id, as
in caddy codex status. If that fails, name the attempt that the error names to repeat
it without spending a second credit.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolP("yes", "y", false, "Do not ask before")
	cmd.Flags().String("attempt", "", "Name of the attempt to repeat")
	return withAdmin(cmd, spendCredit)
}

// spendCredit spends a login's reset credit. Without --yes, it asks the operator before.
func spendCredit(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	var document status.Document
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/status", nil, nil, &document); err != nil {
		return err
	}
	server, err := chooseByID(document.AppServers, fl.Args())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if !fl.Bool("yes") {
		fmt.Fprintf(out, "Spend one of %s of %s? It resets the windows of the plan now. [y/N] ", creditsText(server), server.ID)
		answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // if nothing can be read, the answer is no
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return errors.New("no credit was spent")
		}
	}
	attempt := cmp.Or(fl.String("attempt"), rand.Text())
	var reset status.Reset
	err = callAdmin(ctx, fl, http.MethodPost, "/codex/credit?app_server="+url.QueryEscape(server.ID), http.Header{"Idempotency-Key": {attempt}}, nil, &reset)
	if err != nil {
		return fmt.Errorf("%w\nTo repeat this attempt without spending a second credit: caddy codex credit %s --attempt %s", err, server.ID, attempt)
	}
	fmt.Fprintln(out, reset.Message)
	return nil
}

// chooseByID returns the app-server whose id is the argument or, without an argument, the only one.
func chooseByID(servers []status.AppServer, args []string) (*status.AppServer, error) {
	choices := ""
	for i := range servers {
		s := &servers[i]
		if len(args) == 0 && len(servers) == 1 || len(args) == 1 && args[0] == s.ID {
			return s, nil
		}
		choices += fmt.Sprintf("\n  %s: %s", s.ID, creditsText(s))
	}
	return nil, errors.New("name one app-server by its id:" + choices)
}

func creditsText(s *status.AppServer) string {
	if s.Login.ResetCredits == nil {
		return "an unknown number of reset credits"
	}
	return fmt.Sprintf("%d reset credits", s.Login.ResetCredits.Available)
}
