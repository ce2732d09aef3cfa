// Package gateway serves the OpenAI API and similar APIs over HTTP. Turns of app-servers (Codex
// processes) produce the answers. serve.go shows the path of a request:
//
//   - internal/chat, or the package of another API, decodes the body.
//   - internal/prompt makes a plan of the request.
//   - internal/conversation starts the threads and turns of the plan, with codexrpc.
//   - internal/turn makes outputs of the events of the turns.
//   - The package of the API encodes the outputs as a stream or as one body.
//
// The package does not depend on Caddy.
package gateway

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Options are the settings of a [Gateway].
type Options struct {
	MaxBody       int64          // limits the body of a request, in bytes
	Memory        *claims.Memory // limits the memory that requests use in app-servers; nil: 512 MiB
	MaxBodyMemory int64          // limits the memory of all request bodies together, in bytes; at least four times MaxBody
	MaxConcurrent int            // how many turns may run at the same time
	MaxPerUser    int            // how many of these turns one user may have; 0: a share, see claims.Queue
	MaxQueue      int            // how many requests may wait until their turns may run; 0: none
	QueueWait     time.Duration  // how long a request may wait until its turns may run
	IdleTimeout   time.Duration  // how long the model may be silent within a turn
	Keepalive     time.Duration  // how long a stream may be silent until a comment is sent; 0 or less: no comments are sent
	// Exit ends when the server begins to exit, but not on a reload. After Exit has ended, no new
	// request is accepted, and running turns end within DrainTimeout. Nil: the server never exits.
	Exit         context.Context
	DrainTimeout time.Duration
	Tools        turn.ToolOptions
	Patterns     []aggregator.NamedPattern // further textual forms of tool calls, besides <use_tool>
	StopGrace    time.Duration             // how long a turn continues after a tool call, see turn.Options.Grace
	Aliases      []prompt.Alias            // further names of models, besides those of Codex
	Images       Images                    // fetches images at URLs; nil: such images are refused
	Ollama       bool                      // clients may append :latest to the names of models
	WebSearch    bool                      // the model may search the web, for requests that ask for it
	NoReasoning  bool                      // clients get no summaries of the reasoning
	Shorten      bool                      // conversations that are too long are shortened, also if the API has no form for that
	Sealer       seal.Sealer               // seals the summaries that clients keep; nil: seal.OfProcess
	Instructions conversation.Instructions // where Codex puts the instructions of a conversation; empty: InstructionsAuto
	Responses    *objects.Store            // stores responses; nil: none are stored
	Running      *objects.Running          // the responses under way, shared by the gateways before and after a reload; nil: not shared
	Recorder     *recorder.Recorder        // records requests, as Record says; nil: nothing is recorded
	Record       recorder.Rule
	Live         *status.Set                // the requests under way, shared by several gateways; nil: not shared
	Observer     Observer                   // observes requests and turns; nil: nothing observes them
	User         func(*http.Request) string // returns the authenticated user of a request
	// Several reports whether the server has several users, even if only one of them has sent
	// requests. Nil: this is not known.
	Several func() bool
	// OwnDeadlines, if not nil, is called when an answer begins to stream. It returns a writer for the
	// answer that sets no deadlines: the gateway sets [WriteTimeout] for each write.
	OwnDeadlines func(http.ResponseWriter, *http.Request) http.ResponseWriter
	// Next serves a request, with the body as it came, if no login can since the plan of each is spent. If nobody
	// serves it, Next writes nothing and returns false. If the field is nil, the client gets the error.
	Next func(r *http.Request, body io.Reader) (served bool)
	// Key returns the key of a request, with its limits. A request with a nil key has no limits.
	// Key fails if the key is no longer valid. If the field Key is nil, no request has limits.
	Key    func(*http.Request) (*quota.Key, *apierror.Error)
	Limits *quota.Limits // counts what the keys use; must be set if Key is set
	// PlanLimits returns a function for the limits of a key's PlanShare in windows. It must be set if Key is set.
	PlanLimits func([]usage.PlanWindow) func(*quota.Key) []quota.Limit
	Logger     *slog.Logger
}

// Gateway answers API requests. Its methods are safe for concurrent use.
type Gateway struct {
	upstream conversation.Upstream
	opener   conversation.Opener
	opts     Options
	crowd    *claims.Crowd // the users of this gateway
	queue    *claims.Queue // a slot for each running turn
	bodies   *reqbody.Pool

	memory      *claims.Memory // limits the memory that requests use in app-servers, see [Gateway.claimMemory]
	processors  *claims.Queue  // runs the work on large requests, see [Gateway.compute]
	planOptions prompt.Options
	overrides   []string // see [Options.toolOverrides]

	requestSlots *claims.Budget // one slot for each request under way
	answerBudget *claims.Budget // bytes of answers in memory
	maxAnswer    int64          // the most bytes of one answer
	objects      *objects.Objects
	sockets      *claims.Budget // one slot for each WebSocket
	drainer      *drainer
	closing      context.Context // cancelled by closeSockets
	closeSockets context.CancelFunc
}

// New returns a gateway.
func New(upstream conversation.Upstream, opts Options) *Gateway {
	if opts.Exit == nil {
		opts.Exit = context.Background()
	}
	opts.Instructions = cmp.Or(opts.Instructions, conversation.InstructionsAuto)
	if opts.Observer == nil {
		opts.Observer = unobserved{}
	}
	if opts.Sealer == nil {
		opts.Sealer = seal.OfProcess
	}
	opts.Running = cmp.Or(opts.Running, objects.NewRunning())
	opts.Live = cmp.Or(opts.Live, new(status.Set))
	opts.Memory = cmp.Or(opts.Memory, claims.NewMemory(defaultMemory))
	if opts.Recorder != nil {
		opts.Logger = recorder.Logger(opts.Logger)
	}
	crowd := claims.NewCrowd(opts.Several)
	g := &Gateway{
		upstream: upstream,
		opener: conversation.Opener{
			Upstream: upstream, Instructions: opts.Instructions, IdleTimeout: opts.IdleTimeout, Logger: opts.Logger,
		},
		opts:  opts,
		crowd: crowd,
		queue: claims.NewQueue(claims.QueueOptions{
			Concurrent: opts.MaxConcurrent, PerUser: opts.MaxPerUser, Queue: opts.MaxQueue, Wait: opts.QueueWait, Crowd: crowd,
		}),
		memory:     opts.Memory,
		processors: newProcessors(runtime.GOMAXPROCS(0)),

		requestSlots: claims.NewBudget(int64(max(minRequestSlots, 4*(opts.MaxConcurrent+opts.MaxQueue))), 1, crowd),
		answerBudget: claims.NewBudget(answerMemory, maxAnswer, crowd),
		maxAnswer:    maxAnswer,
		bodies:       reqbody.NewPool(opts.MaxBodyMemory, opts.MaxBody, crowd),
		objects:      &objects.Objects{Store: opts.Responses, Running: opts.Running, User: opts.User, Logger: opts.Logger},
		sockets:      claims.NewBudget(maxSockets, 1, crowd),
		drainer:      &drainer{exit: opts.Exit, drain: opts.DrainTimeout, requests: make(map[*exchange]struct{})},
		overrides:    opts.toolOverrides(),
	}
	g.closing, g.closeSockets = context.WithCancel(context.Background())
	g.planOptions = prompt.Options{
		NoReasoning: opts.NoReasoning, Resolve: g.resolveModel,
		Efforts:     func(model string) (least, most string) { m := g.catalogModel(model); return m.Least, m.Most },
		SerialTools: opts.Tools.ParallelToolCalls != nil && !*opts.Tools.ParallelToolCalls,
	}
	return g
}

// Held is what requests hold now.
type Held struct {
	Places  int64 // requests that are being served
	Sockets int64 // WebSockets that are open
	Bodies  int64 // bytes of bodies, and of what they refer to
	Answers int64 // bytes of answers
	Turns   int   // turns that run
	Waiting int   // requests that wait until their turns may run
	Codex   int   // MiB of memory in app-servers
}

// Held returns how much of each resource that the users share is in use now.
func (g *Gateway) Held() Held {
	return Held{
		Places: g.requestSlots.Held(), Sockets: g.sockets.Held(), Bodies: g.bodies.Held(), Answers: g.answerBudget.Held(),
		Turns: g.queue.Running(), Waiting: g.queue.Len(), Codex: g.memory.Running(),
	}
}
