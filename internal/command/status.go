package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/status"
)

// maxDocument bounds the answer of the admin API, in bytes.
const maxDocument = 64 << 20

// Status returns the command `caddy codex status`.
func Status(configured AppServersFunc) *cobra.Command {
	return withAdmin(&cobra.Command{
		Use:   "status [--address <admin>] [--config <path> [--adapter <name>]]",
		Short: "Shows each app-server and its login",
		Long: `
Shows the state of each app-server and of its login. It asks the Caddy that runs, by
its admin API; without one, it reads the configuration and the files of the logins.`,
		Args: cobra.NoArgs,
	}, configured.showStatus)
}

// showStatus writes the states of the app-servers of the running Caddy. If no Caddy answers, it writes
// what the configuration says, unless the operator has named a Caddy with --address.
func (configured AppServersFunc) showStatus(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
	out, document := cmd.OutOrStdout(), status.Document{}
	adminErr := callAdmin(ctx, fl, http.MethodGet, "/codex/status", nil, nil, &document)
	switch {
	case adminErr == nil:
		return statusTemplate.Execute(out, document)
	case fl.String("address") != "":
		return adminErr
	}
	servers, err := configured.load(fl)
	if err != nil {
		return errors.Join(adminErr, err)
	}
	fmt.Fprintf(out, "No Caddy can be asked (%v).\nThis is what its configuration says.\n", adminErr)
	for i := range servers {
		s := &servers[i]
		fmt.Fprintf(out, "\n%s: not running\n  %s\n  login: %s\n", s.title(), s.description(), s.loginStatus(ctx))
	}
	return nil
}

// loginStatus returns the output of `codex login status` in one line, or else its error.
func (a *AppServer) loginStatus(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // codex needs some time to start
	defer cancel()
	cmd, err := a.Config.LoginCommand(ctx, "login", "status")
	if err != nil {
		return err.Error()
	}
	output, err := cmd.CombinedOutput()
	text := strings.Join(strings.Fields(string(output)), " ")
	if text == "" && err != nil {
		return err.Error()
	}
	return cmp.Or(text, "no word of it")
}

// adminTimeout bounds a call of the admin API. The slowest calls wait for a login's provider.
const adminTimeout = 20 * time.Second

// callAdmin calls the admin API of the running Caddy, and decodes the answer into result, or reads it if result is
// a *[]byte. body is JSON, or nil.
func callAdmin(ctx context.Context, fl caddycmd.Flags, method, path string, header http.Header, body io.Reader, result any) error {
	address, err := adminAddress(fl)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { // AdminAPIRequest has no deadline
		response, err := caddycmd.AdminAPIRequest(address, method, path, header, body)
		if err == nil {
			defer response.Body.Close()
			limited := io.LimitReader(response.Body, maxDocument)
			if text, raw := result.(*[]byte); raw {
				*text, err = io.ReadAll(limited)
			} else {
				err = json.NewDecoder(limited).Decode(result)
			}
		}
		done <- err
	}()
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the admin API at %s: %w", address, err)
	}
	return nil
}

// statusTemplate is the template of the status of a running Caddy. Its data is a [status.Document].
var statusTemplate = template.Must(template.New("").Funcs(template.FuncMap{
	"words": func(state string) string { return strings.ReplaceAll(state, "_", " ") },
	"at": func(what string, at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return ", " + what + " at " + at.Local().Format(time.DateTime)
	},
}).Parse(`caddy-codex {{.Version}} runs, with {{len .AppServers}} app-server{{if ne (len .AppServers) 1}}s{{end}}; {{.Turns.Running}} running, {{.Turns.Waiting}} waiting.
{{- range $engine, $store := .Stores}}
store {{$engine}}: {{$store.State}}
{{- end}}
{{- range .Recording}}
recording {{.}}
{{- end}}
{{range .AppServers}}
{{.ID}}: {{.State}}{{with .Reason}} ({{.}}){{end}}
  {{.Program}}{{with .Version}}, codex {{.}}{{end}}{{with .Home}}, CODEX_HOME {{.}}{{end}}
{{- range .Notes}}
  note: {{.}}
{{- end}}
{{- with .Login}}
  login: {{words .State}}{{with .Reason}} ({{.}}){{end}}{{with .Plan}}, plan {{.}}{{end}}{{at "resets" .ResetsAt}}
{{- range .Meters}}
  limit {{.ID}}{{with .Name}} ({{.}}){{end}}{{if .Spent}}: spent{{end}}
{{- range .Windows}}
    {{.Window}}: {{printf "%g" .UsedPercent}} % used{{if .Over}}, as last told{{at "was reset" .ResetsAt}}{{else}}{{at "resets" .ResetsAt}}{{end}}
{{- end}}{{end}}
{{- with .Credits}}{{if .Has}}
  credits: {{if .Unlimited}}unlimited{{else}}{{.Balance}}{{end}}
{{- end}}{{end}}
{{- with .ResetCredits}}
  reset credits: {{.Available}}{{at "the first expires" .ExpiresAt}}
{{- end}}{{end}}
{{- with .Windows}}
  context windows:{{range $model, $tokens := .}} {{$model}} {{$tokens}}{{end}}
{{- end}}
{{end}}`))
