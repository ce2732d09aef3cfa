// Package gateway serves the OpenAI API over HTTP with the turns of an
// app-server. It joins the parts: a request becomes a plan (internal/openai),
// the plan a thread and a turn (codexrpc), the turn outputs (internal/turn),
// and the outputs a stream or a body. It knows nothing of Caddy.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/queue"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Options are the limits of a [Gateway].
type Options struct {
	MaxBody       int64         // of a request, in bytes
	MaxBodyMemory int64         // of all requests' bodies together, in bytes; at least four times MaxBody
	MaxConcurrent int           // turns at once
	MaxPerUser    int           // turns at once of one user; 0: the share that queue.Queue describes
	MaxQueue      int           // requests that may wait for their turns; 0: none does
	QueueWait     time.Duration // how long each may wait
	IdleTimeout   time.Duration // silence of the model within a turn
	Keepalive     time.Duration // silence of a stream before a comment; 0 or less: never
	// Exit ends when the server begins to exit, and never because of a reload. From
	// then on no turn starts, and those that run have DrainTimeout to end. Nil:
	// never.
	Exit         context.Context
	DrainTimeout time.Duration
	Tools        turn.ToolOptions
	StopGrace    time.Duration       // how long a turn goes on after a textual block, in turn.StopBurst
	Aliases      []openai.Alias      // models besides those of Codex
	Images       Images              // nil: images elsewhere are refused
	NoReasoning  bool                // clients get no summaries of the reasoning
	Instructions Instructions        // empty: InstructionsAuto
	Responses    responsestore.Store // keeps responses; nil: they are not kept
	Running      *Running            // the responses under way, over reloads; nil: only these
	Observer     Observer
	User         func(*http.Request) string // who asks, by whatever has authenticated the caller
	Logger       *slog.Logger
}

// Lease is a request's hold on the app-servers until it has picked: no reload
// takes one away before Release.
type Lease interface {
	// Pick chooses the process for one turn, the least busy of those that are
	// ready. It need not be ready if none is. avoid, which may be nil, is one that
	// has just failed, and is chosen only if there is no other. The process is the
	// turn's, also after Release, until done is called, once its thread is gone.
	Pick(avoid *appserver.Process) (process *appserver.Process, done func())
	// Statuses tells what the processes are doing, in the order of the
	// configuration. There is at least one.
	Statuses() []appserver.Status
	// Release lets go. It may be called more than once.
	Release()
}

// Upstream is where app-servers come from.
type Upstream interface {
	// Lease fails once the server is exiting, with turn.ErrShutdown.
	Lease() (Lease, error)
}

// Gateway answers API requests. Its methods are safe for concurrent use.
type Gateway struct {
	upstream Upstream
	opts     Options
	queue    *queue.Queue // a slot for each running turn
	bodies   *bodies

	answers   *budget.Budget // of answers until their ends
	maxAnswer int64          // of one of them, in bytes
	running   *Running
}

// New makes a gateway.
func New(upstream Upstream, opts Options) *Gateway {
	if opts.Exit == nil {
		opts.Exit = context.Background()
	}
	if opts.Instructions == "" {
		opts.Instructions = InstructionsAuto
	}
	if opts.Running == nil {
		opts.Running = NewRunning()
	}
	return &Gateway{
		upstream: upstream,
		opts:     opts,
		queue: queue.New(queue.Options{
			Concurrent: opts.MaxConcurrent, PerUser: opts.MaxPerUser, Queue: opts.MaxQueue, Wait: opts.QueueWait,
		}),
		answers:   budget.New(answerMemory),
		maxAnswer: maxAnswer,
		bodies:    newBodies(opts.MaxBodyMemory, opts.MaxBody),
		running:   opts.Running,
	}
}

// Queue counts the turns that run, and the requests that wait for a place.
func (g *Gateway) Queue() (running, waiting int) { return g.queue.Running(), g.queue.Len() }

// BodyMemory is how much memory the bodies of requests take, in bytes.
func (g *Gateway) BodyMemory() int64 { return g.bodies.budget.Held() }

// startWait is how long a request waits for an app-server that is starting, or is
// unresponsive.
const startWait = 10 * time.Second

// errStartWait says that startWait is over.
var errStartWait = errors.New("the app-server was not ready in time")

// conn waits for a process to be ready.
func (g *Gateway) conn(ctx context.Context, process *appserver.Process) (*codexrpc.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, errStartWait)
	defer cancel()
	conn, err := process.Conn(ctx)
	if errors.Is(err, errStartWait) {
		waited := fmt.Sprintf("it has not answered for %s; try again in a moment", startWait)
		return nil, &appserver.NotReadyError{
			State:      process.Status().State,
			Reason:     waited,
			Remedy:     waited,
			RetryAfter: time.Second,
		}
	}
	return conn, err
}

// maxLoggedParam bounds what is logged of the field of a request that is wrong,
// in bytes: its name may be the client's.
const maxLoggedParam = 200

// refuse answers a request that failed before its first output. A client that
// has gone gets a 499: one that has closed its sending side alone still reads, and
// must not take an empty 200 for an answer. Once the server is exiting, the end of
// a context says nothing of the client; nor does it when a body was too slow, since
// over HTTP/1 the end of the reading is the end of the context.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	if r.Context().Err() != nil && g.opts.Exit.Err() == nil && e.Status != http.StatusRequestTimeout {
		e = openai.ClientGone()
	}
	g.opts.Observer.RequestFailed(r, e)
	g.logFailure(r, "request refused", e)
	if err := e.Respond(w); err != nil {
		g.lost(r, err)
	}
}

// logFailure logs why a request failed, with what its client is not told.
func (g *Gateway) logFailure(r *http.Request, what string, e *openai.Error) {
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("request_id", r.Header.Get("X-Request-Id")),
		slog.Int("status", e.Status),
		slog.String("code", string(e.Code)),
		slog.String("param", e.Param[:min(len(e.Param), maxLoggedParam)]),
	}
	if e.Status >= http.StatusInternalServerError || e.Detail != "" {
		level = slog.LevelWarn
		// The message on a request that is wrong may quote it, so it is not logged.
		attrs = append(attrs, slog.String("error", cmp.Or(e.Detail, e.Message)))
	}
	g.opts.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, what, attrs...)
}

// lost notes that an answer did not reach its client.
func (g *Gateway) lost(r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the ordinary way for a client to go
	}
	g.opts.Logger.LogAttrs(r.Context(), slog.LevelDebug, "the client did not take the answer",
		slog.String("request_id", r.Header.Get("X-Request-Id")),
		slog.String("error", err.Error()))
}
