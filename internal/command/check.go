package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// ChatFunc answers a request for a chat completion as the API does, with a turn of the upstream.
type ChatFunc func(conversation.Upstream, http.ResponseWriter, *http.Request)

// Check returns the command `caddy codex check`.
func Check(configured AppServersFunc, chat ChatFunc) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [<app_server>] [--model <id>] [--timeout <duration>] [--config <path> [--adapter <name>]]",
		Short: "Starts each app-server, asks its model, and says what is wrong",
		Long: `
Starts each app-server as it is configured, or the one that is named, beside those of a
Caddy that may run, and asks the model one short question. If something is wrong, it
says what, and what to do. Run it as the user that Caddy runs as.`,
	}
	cmd.Flags().StringP("model", "m", prompt.DefaultModel, "The model to ask")
	cmd.Flags().DurationP("timeout", "t", time.Minute, "How long the check of one app-server may take")
	return withConfig(cmd, func(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags) error {
		return configured.check(ctx, cmd, fl, chat)
	})
}

func (configured AppServersFunc) check(ctx context.Context, cmd *cobra.Command, fl caddycmd.Flags, chat ChatFunc) error {
	servers, err := configured.load(fl)
	if err != nil {
		return err
	}
	if len(fl.Args()) > 0 { // otherwise, all are checked
		if servers, err = choose(servers, fl.Args()); err != nil {
			return err
		}
	}
	out, failed := cmd.OutOrStdout(), 0
	for i := range servers {
		fmt.Fprintf(out, "%s: %s\n", servers[i].title(), servers[i].description())
		checkCtx, cancel := context.WithTimeout(ctx, fl.Duration("timeout"))
		err := servers[i].check(checkCtx, out, fl.String("model"), chat)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			fmt.Fprintf(out, "  failed: %v\n", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d app-servers cannot be used", failed, len(servers))
	}
	return nil
}

// check starts the app-server and asks its model. The error says what is wrong and what to do.
func (a *AppServer) check(ctx context.Context, out io.Writer, model string, chat ChatFunc) error {
	process := appserver.New(a.Config, nil)
	defer process.Stop()
	process.Start()
	in, err := process.Instance(ctx) // fails after several failed starts
	switch {
	case ctx.Err() != nil:
		return errors.New("the app-server was not ready in time; see --timeout")
	case err != nil:
		return errors.New(process.Status().Reason)
	}
	fmt.Fprintf(out, "  ok: Codex %s runs\n", process.Status().Version)
	if note := codexrpc.Untested(process.Status().Version); note != "" {
		fmt.Fprintf(out, "  warning: %s\n", note)
	}
	upstream := conversation.Sole(process)
	lease, _ := upstream.Lease() // an upstream of one process does not fail
	login := lease.Members()[0].Login
	if failure := process.CheckAccount(ctx, in.Conn()); failure != nil {
		login.Fail("", failure, 0)
		fmt.Fprintf(out, "  warning: %s\n", failure.Message)
	} else {
		fmt.Fprintf(out, "  ok: %s\n", loginText(ctx, in.Conn()))
	}
	begin := time.Now()
	ask := func(w http.ResponseWriter, r *http.Request) { chat(upstream, w, r) }
	if err := askModel(ctx, ask, login, model); err != nil {
		return err
	}
	fmt.Fprintf(out, "  ok: the model %s has answered after %s\n", model, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// loginText describes the login of an app-server and, if they are known, the limits of its plan.
func loginText(ctx context.Context, conn *codexrpc.Conn) string {
	account, err := conn.Account(ctx)
	var login struct{ Type, Email, PlanType string }
	if err == nil && len(account.Account) > 0 {
		_ = json.Unmarshal(account.Account, &login) // if the account has another form, Type stays empty
	}
	text := "the provider needs no login"
	switch {
	case login.Type == "chatgpt":
		text = fmt.Sprintf("signed in at ChatGPT as %s, plan %s", login.Email, login.PlanType)
	case login.Type == "apiKey":
		text = "signed in with an API key"
	case login.Type != "":
		text = "signed in (" + login.Type + ")"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	limits, _ := conn.RateLimits(ctx, false) // nil if, for example, the login has no plan
	for _, w := range limits.Meter("").Windows() {
		text += fmt.Sprintf("; %g %% of %s used", w.UsedPercent, w.Name())
	}
	return text
}

// askModel asks the model, as a client would. The error says what is wrong and what to do.
func askModel(ctx context.Context, ask http.HandlerFunc, login *loginstate.Login, model string) error {
	body, err := json.Marshal(map[string]any{"model": model, "messages": []any{
		map[string]any{"role": "user", "content": "Answer with the word OK and nothing else."},
	}})
	request, requestErr := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", bytes.NewReader(body))
	if err = errors.Join(err, requestErr); err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	w := answerWriter{header: make(http.Header)}
	ask(&w, request)
	var answer struct {
		Error struct {
			Message string        `json:"message"`
			Code    apierror.Code `json:"code"`
		} `json:"error"`
		Choices []any `json:"choices"`
	}
	err = json.Unmarshal(w.body.Bytes(), &answer)
	switch {
	case ctx.Err() != nil:
		return errors.New(cmp.Or(login.Status().Cause, loginstate.ProviderDown).Advice())
	case err != nil:
		return fmt.Errorf("an answer that is no JSON: %w", err)
	case answer.Error.Message != "":
		return errors.New(advice(login.Status(), answer.Error.Code, answer.Error.Message))
	case len(answer.Choices) == 0:
		return errors.New("the answer is empty")
	}
	return nil
}

type answerWriter struct {
	header http.Header
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header         { return w.header }
func (w *answerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
func (*answerWriter) WriteHeader(int)               {}

// advice says what is wrong and what the operator can do, after a request with this error.
func advice(login loginstate.Status, code apierror.Code, message string) string {
	switch {
	case login.Cause == loginstate.PlanSpent && !login.ResetsAt.IsZero():
		return login.Cause.Reason() + "; it resets at " + login.ResetsAt.Local().Format(time.DateTime)
	case login.Cause != "":
		return login.Cause.Advice()
	case code == apierror.CodeModelNotFound:
		return message + " Choose another one with --model"
	}
	return message
}
