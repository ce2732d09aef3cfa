package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// errSilent ends a turn of which the model's provider gives no sign, while another login is free.
var errSilent = &codexrpc.TurnError{
	Message: "the model's provider has taken the request and gives no sign", Code: "responseStreamDisconnected",
}

// silentRest is for how long a login rests whose provider gives no sign: to try it again costs the
// next request as long a wait.
const silentRest = time.Minute

// watchSilence lets the login of a choice rest if its turn begins without a sign of the model, and
// ends the turn then if another login is free, so that it moves there. Once the model has begun it
// may be silent for long. Nothing is done if there is no other login, which would help. The caller
// calls stop when the turn has ended.
func (g *Gateway) watchSilence(ctx context.Context, c *choice) (stop func() bool) {
	patience := c.place.Process.FirstSign()
	if !c.movable || c.moved || patience == 0 {
		return func() bool { return true }
	}
	conn, thread, login := c.place.Conn, c.thread.ID(), c.login
	return time.AfterFunc(patience, func() {
		if !conn.Beginning(thread) {
			return
		}
		g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the model's provider has given no sign of a turn; its login rests", slog.String("for", silentRest.String()))
		login.Falter(errSilent, silentRest)
		if g.anotherFree(login) {
			conn.FailBeginning(thread, errSilent)
		}
	}).Stop
}
