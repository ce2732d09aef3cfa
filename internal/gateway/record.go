package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Record is what is remembered of a turn: for usage, metrics and logs. It holds
// nothing that was said.
type Record struct {
	Time      time.Time      // when it ended
	RequestID string         // x-request-id
	User      string         // who asked; empty if nobody said so
	Choice    int            // the choice's index
	Model     string         // as the client named it; it may be of any length
	Mode      turn.Mode      // the form of tool calls
	Stop      turn.StopMode  // when calls end the turn
	Stream    bool           // the client asked for a stream
	Status    int            // HTTP; 499 for a client that left
	Code      string         // of the error, if it failed
	Usage     codexrpc.Usage // tokens; zero where Codex does not tell
	Tools     turn.Report
}

// Observer is told of every turn that was run. It must be quick and safe for
// concurrent use.
type Observer interface {
	TurnEnded(Record)
}

// statusClientGone is what a request is counted as whose client left before
// the end: nginx's number for it, for want of an official one.
const statusClientGone = 499

// ended reports a turn to the observer and to the log.
func (g *Gateway) ended(r *http.Request, record Record) {
	record.Time = time.Now()
	record.RequestID = r.Header.Get("X-Request-Id")
	record.User = g.opts.User(r)
	g.opts.Observer.TurnEnded(record)
	tools := record.Tools
	log := g.opts.Logger.With(
		slog.String("request_id", record.RequestID),
		slog.Int("choice", record.Choice),
		slog.String("mode", string(record.Mode)),
	)
	ctx := context.WithoutCancel(r.Context())
	for reason, n := range tools.Aborted {
		level := slog.LevelWarn
		if reason == turn.AbortUndeclared {
			level = slog.LevelDebug // the text speaks of a tool; nothing is wrong with it
		}
		log.LogAttrs(ctx, level, "a begun tool block was no call",
			slog.String("reason", string(reason)), slog.Int("blocks", n))
	}
	if tools.Calls > 0 || tools.Started > 0 {
		level := slog.LevelDebug
		if tools.Truncated {
			level = slog.LevelInfo
		}
		log.LogAttrs(ctx, level, "tool calls",
			slog.String("stop_after_tools", string(record.Stop)),
			slog.Int("calls", tools.Calls),
			slog.Bool("truncated", tools.Truncated),
			slog.Int("duplicates", tools.Duplicates),
			slog.Int("blocks_started", tools.Started),
			slog.Int("blocks_flushed", tools.Flushed),
			slog.Int("tail_bytes", tools.TailBytes))
	}
}
