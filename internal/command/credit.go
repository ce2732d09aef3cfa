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
	"strings"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

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
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/status", nil, &document); err != nil {
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
	err = callAdmin(ctx, fl, http.MethodPost, "/codex/credit?app_server="+url.QueryEscape(server.ID), http.Header{"Idempotency-Key": {attempt}}, &reset)
	if err != nil {
		return fmt.Errorf("%w\nTo repeat this attempt without spending a second credit: caddy codex credit %s --attempt %s", err, server.ID, attempt)
	}
	fmt.Fprintln(out, reset.Message)
	return nil
}

// chooseByID returns the app-server with the id or, without one, the only one, or an error.
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
