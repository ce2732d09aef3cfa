// Package gateway serves the OpenAI API over HTTP with the turns of an
// app-server. It joins the parts: a request becomes a plan (internal/prompt),
// the plan a thread and a turn (codexrpc), the turn outputs (internal/turn),
// and the outputs a stream or a body. It knows nothing of Caddy.
package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/models"
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
	Aliases      []models.Alias      // models besides those of Codex
	Images       Images              // nil: images elsewhere are refused
	NoReasoning  bool                // clients get no summaries of the reasoning
	Instructions Instructions        // empty: InstructionsAuto
	Responses    responsestore.Store // keeps responses; nil: they are not kept
	Running      *Running            // the responses under way, over reloads; nil: only these
	Observer     Observer
	User         func(*http.Request) string // who asks, by whatever has authenticated the caller
	Logger       *slog.Logger
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
