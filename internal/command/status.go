package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

const (
	// adminTimeout bounds a request to the admin API.
	adminTimeout = 10 * time.Second
	// loginStatusTimeout bounds a run of `codex login status`, which takes a moment.
	loginStatusTimeout = 20 * time.Second
	// maxDocument bounds the answer of the admin API, in bytes.
	maxDocument = 16 << 20
)

// Status returns the command `caddy codex status`.
func Status(configured Configured) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Shows each app-server and its login",
		Long: `
Shows the state of each app-server and of its login: that of the Caddy that runs,
by its admin API, or else what the configuration and the files of the logins say.`,
		Args: cobra.NoArgs,
	}
	configFlags(cmd)
	adminFlag(cmd)
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err := showStatus(ctx, cmd.OutOrStdout(), fl, configured)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

// showStatus writes the states of the running app-servers, or of the configured ones.
func showStatus(ctx context.Context, to io.Writer, fl caddycmd.Flags, configured Configured) error {
	document, failed := ask(ctx, fl)
	switch {
	case failed == nil:
		return writeRunning(to, document)
	case fl.String("address") != "":
		return failed
	}
	servers, err := configured.read(fl)
	if err != nil {
		return errors.Join(failed, err)
	}
	fmt.Fprintf(to, "No Caddy can be asked (%v).\nThis is what its configuration says.\n", failed)
	for i := range servers {
		s := &servers[i]
		fmt.Fprintf(to, "\n%s: not running\n  %s\n", s.title(i+1), s.is())
		if s.Config.Connect == "" {
			fmt.Fprintf(to, "  login: %s\n", s.loginStatus(ctx))
		}
	}
	return nil
}

// loginStatus returns what `codex login status` says, on one line.
func (a *AppServer) loginStatus(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, loginStatusTimeout)
	defer cancel()
	cmd, err := a.Config.LoginCommand(ctx, "status")
	if err != nil {
		return err.Error()
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	if text := strings.Join(strings.Fields(said.String()), " "); text != "" {
		return text
	}
	if err != nil {
		return err.Error()
	}
	return "no word of it"
}

// ask asks the admin API for the status.
func ask(ctx context.Context, fl caddycmd.Flags) (*status.Document, error) {
	document := new(status.Document)
	if err := callAdmin(ctx, fl, http.MethodGet, "/codex/status", document); err != nil {
		return nil, err
	}
	return document, nil
}

// callAdmin calls the admin API of the Caddy that runs, and decodes its answer.
func callAdmin(ctx context.Context, fl caddycmd.Flags, method, path string, into any) error {
	address, err := adminAddress(fl)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() { // it has no deadline of its own
		response, err := caddycmd.AdminAPIRequest(address, method, path, nil, nil)
		if err == nil {
			defer response.Body.Close()
			err = json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into)
		}
		answered <- err
	}()
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the admin API at %s: %w", address, err)
	}
	return nil
}

// writeRunning writes the status of a Caddy that runs.
func writeRunning(to io.Writer, document *status.Document) error {
	var text strings.Builder
	fmt.Fprintf(&text, "caddy-codex %s runs, with %d app-servers; %d turns run, %d wait.\n",
		document.Version, len(document.AppServers), document.Turns.Running, document.Turns.Waiting)
	for i := range document.AppServers {
		writeAppServer(&text, &document.AppServers[i])
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func writeAppServer(text *strings.Builder, s *status.AppServer) {
	fmt.Fprintf(text, "\n%s: %s", s.ID, s.State)
	if s.Reason != "" {
		fmt.Fprintf(text, " (%s)", s.Reason)
	}
	text.WriteByte('\n')
	is := []string{s.Program + s.Address}
	if s.Version != "" {
		is = append(is, "codex "+s.Version)
	}
	if s.Home != "" {
		is = append(is, "CODEX_HOME "+s.Home)
	}
	fmt.Fprintf(text, "  %s\n", strings.Join(is, ", "))
	writeLogin(text, &s.Login)
}

// writeLogin writes what is known of a login.
func writeLogin(text *strings.Builder, l *status.Login) {
	fmt.Fprintf(text, "  login: %s", strings.ReplaceAll(l.State, "_", " "))
	if l.Reason != "" {
		fmt.Fprintf(text, " (%s)", l.Reason)
	}
	if l.Plan != "" {
		fmt.Fprintf(text, ", plan %s", l.Plan)
	}
	if l.ResetsAt != nil {
		fmt.Fprintf(text, ", resets at %s", l.ResetsAt.Local().Format(time.DateTime))
	}
	text.WriteByte('\n')
	for _, w := range l.Windows {
		fmt.Fprintf(text, "  %s: %g %% used", w.Window, w.UsedPercent)
		if w.ResetsAt != nil {
			fmt.Fprintf(text, ", resets at %s", w.ResetsAt.Local().Format(time.DateTime))
		}
		text.WriteByte('\n')
	}
	switch c := l.Credits; {
	case c == nil || !c.Has:
	case c.Unlimited:
		text.WriteString("  credits: unlimited\n")
	default:
		fmt.Fprintf(text, "  credits: %s\n", c.Balance)
	}
}
