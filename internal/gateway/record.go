package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Record is what is remembered of a turn: for usage, metrics and logs. It holds
// nothing that was said.
type Record struct {
	Time        time.Time      // when it ended
	Duration    time.Duration  // from the request's arrival to the turn's end
	FirstOutput time.Duration  // from the request's arrival to the first text, reasoning or call; 0: there was none
	Route       Route          // by which it was asked for
	RequestID   string         // x-request-id
	User        string         // who asked; empty if nobody said so
	Choice      int            // the choice's index
	Model       string         // as the client named it; it may be of any length
	Mode        turn.Mode      // the form of tool calls
	Stop        turn.StopMode  // when calls end the turn
	Stream      bool           // the client asked for a stream
	Status      int            // HTTP; of a client that left that of openai.ClientGone
	Code        openai.Code    // of the error, if it failed
	Usage       codexrpc.Usage // tokens; zero where Codex does not tell
	Tools       turn.Report
}

// Route is a route whose requests want turns of the model.
type Route string

// The routes, as logs and metrics call them.
const (
	RouteChat      Route = "chat"
	RouteResponses Route = "responses"
)

// Observer is told of every request that was refused or wanted a turn. It must
// be quick and safe for concurrent use.
type Observer interface {
	// AnswerBegan is told of a request whose turns have started. It returns what
	// is to be called when its answer has ended.
	AnswerBegan(stream bool) (ended func())
	// TurnEnded is told of each turn that was run.
	TurnEnded(Record)
	// RequestFailed is told of each request that failed, before or within its
	// turns, perhaps more than once: the first time counts.
	RequestFailed(*http.Request, *openai.Error)
}

// ended reports a turn to the observer and to the log.
func (g *Gateway) ended(r *http.Request, record Record) {
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
		switch {
		case tools.Unwritable > 0:
			level = slog.LevelWarn
		case tools.Truncated || tools.Duplicates > 0:
			level = slog.LevelInfo
		}
		log.LogAttrs(ctx, level, "tool calls",
			slog.String("stop_after_tools", string(record.Stop)),
			slog.Int("calls", tools.Calls),
			slog.Bool("truncated", tools.Truncated),
			slog.Int("duplicates", tools.Duplicates),
			slog.Int("unwritable", tools.Unwritable),
			slog.Int("blocks_started", tools.Started),
			slog.Int("blocks_flushed", tools.Flushed),
			slog.Int("tail_bytes", tools.TailBytes))
	}
}
