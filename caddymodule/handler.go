package caddymodule

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// minBodies is how many bodies of the largest size max_body_memory must have room
// for.
const minBodies = 4

// Handler answers the OpenAI API with a managed `codex app-server`.
//
// It serves POST /v1/chat/completions, /v1/responses and what is below it,
// GET /v1/models, GET /v1/models/{id}, GET /v1/usage, GET /v1/usage/raw, GET /healthz and GET /readyz. Other paths below /v1/ get a 404 in OpenAI's
// envelope, all others go to the next handler.
type Handler struct {
	// The app-servers to use; each turn runs on the least busy one that is ready.
	// Default: one, `codex app-server` with Caddy's own environment.
	AppServers []*AppServer `json:"app_servers,omitempty"`

	// The keys that clients may present as `Authorization: Bearer KEY`. None: the
	// handler makes no check of its own, and every caller is served. Placeholders
	// such as {env.KEY} and {file./path} are resolved when the configuration is
	// loaded.
	APIKeys []APIKey `json:"api_keys,omitempty"`

	// The largest request body, in bytes. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How much memory the bodies of all requests may take together that are read,
	// wait or are being started, in bytes: at least four times max_body. A request
	// above it gets a 503 with the code codex_body_memory. Default: 512 MiB, or four
	// times max_body if that is more.
	MaxBodyMemory int64 `json:"max_body_memory,omitempty"`

	// How many turns this handler runs at once. Requests above it wait. Default:
	// 64.
	MaxConcurrent int `json:"max_concurrent,omitempty"`

	// How many turns of one user this handler runs at once; callers without a name
	// count as one user. Requests above it wait, and those of others pass them.
	// Default: a share. If another user has asked within the last hour, a user may
	// hold at most seven times as many places as stay free; else all. Callers without
	// a name may hold all.
	MaxPerUser int `json:"max_per_user,omitempty"`

	// How many requests may wait; ones above it get a 429 with the code
	// codex_queue_full. The users take turns, and when the queue is full, the newest
	// request of the user with the most makes room for one who has fewer. 0: none
	// waits. Default: 128.
	MaxQueue *int `json:"max_queue,omitempty"`

	// How long a request may wait; then it gets a 503 with the code
	// codex_queue_timeout. Default: `10s`.
	MaxQueueWait caddy.Duration `json:"max_queue_wait,omitempty"`

	// How long the model may be silent within a turn before the client gets a 504.
	// Codex itself gives up a silent provider, by default after five minutes. An
	// app-server that hangs is found within seconds, without this. Default: `6m`.
	IdleTimeout caddy.Duration `json:"idle_timeout,omitempty"`

	// How long a stream may be silent before a comment keeps its connection
	// open. Negative: never. Default: `15s`.
	Keepalive caddy.Duration `json:"keepalive,omitempty"`

	// How long turns may go on when Caddy exits; then they end with the code
	// server_shutting_down. Default: `10s`.
	DrainTimeout caddy.Duration `json:"drain_timeout,omitempty"`

	// Where the responses of /v1/responses are kept.
	ResponseStore ResponseStore `json:"response_store,omitzero"`

	// The origins of pages that may use the API from a browser, such as
	// `https://app.example` or Obsidian's `app://obsidian.md`; or `*` alone for all.
	// Placeholders are resolved when the configuration is loaded. None: answers
	// say nothing about origins. Default: none.
	CORS []string `json:"cors,omitempty"`

	// The names of hosts by which callers may call whom nobody has authenticated,
	// neither one of `api_keys` nor a handler of Caddy's, besides the names in the
	// host matchers of the routes that lead here, localhost and IP addresses.
	// Wildcards are those of host matchers: `*.example.com`. Placeholders are
	// resolved when the configuration is loaded. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// Whose usage /v1/usage and /v1/usage/raw show: `own`, that of the caller's
	// user, or `all`, that of all users of this Caddy. Default: `own`.
	Usage string `json:"usage,omitempty"`

	// Names of your own for Codex's models. GET /v1/models lists them after those
	// that Codex lists. Your name takes precedence over a model of the same name.
	Models []ModelAlias `json:"models,omitempty"`

	// Whether images that a request names by an https URL are fetched for the
	// model. Only public addresses are contacted, and the number, the size and the
	// time are bounded. Otherwise such a request is refused. Default: false.
	ImageFetch bool `json:"image_fetch,omitempty"`

	// Whether clients get the summaries of the model's reasoning, as
	// reasoning_content and as reasoning items. Default: true.
	Reasoning *bool `json:"reasoning,omitempty"`

	// Where the instructions of a conversation go, which are its system and developer
	// messages at the beginning. `replace`: they replace Codex's own prompt. `append`:
	// they follow it. `auto`: replace, and append once the model's provider has refused
	// that for the login. Default: `auto`.
	Instructions gateway.Instructions `json:"instructions,omitempty"`

	turn.ToolOptions

	// How long a turn waits for another textual block after a textual block, with
	// stop_after_tools `burst`. Default: `300ms`.
	StopAfterToolsGrace caddy.Duration `json:"stop_after_tools_grace,omitempty"`

	images     *imagefetch.Fetcher // nil: none are fetched
	keys       keyring
	gateway    *gateway.Gateway
	closeStore func() error
	cors       *cors
	hosts      *hosts
	pool       *pool
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.codex",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets the handler up. It starts nothing: that is the app's part.
func (h *Handler) Provision(ctx caddy.Context) error {
	if err := h.complete(); err != nil {
		return err // before anything is registered
	}
	repl := caddy.NewReplacer()
	keys, err := newKeyring(h.APIKeys, repl)
	if err != nil {
		return err
	}
	h.keys = keys
	if h.cors, err = newCORS(h.CORS, repl); err != nil {
		return err
	}
	if h.hosts, err = newHosts(ctx, h.Hosts, repl); err != nil {
		return err
	}
	app, err := ctx.App("codex")
	if err != nil {
		return fmt.Errorf("loading the codex app: %w", err)
	}
	h.pool, err = newPool(app.(*App), h.AppServers, repl)
	if err != nil {
		return err
	}
	if err := registerMetrics(ctx); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	store, closeStore, err := h.ResponseStore.open(ctx)
	if err != nil {
		return fmt.Errorf("opening the store of responses: %w", err)
	}
	h.closeStore = closeStore
	options := gateway.Options{
		MaxBody:       h.MaxBody,
		MaxBodyMemory: h.MaxBodyMemory,
		MaxConcurrent: h.MaxConcurrent,
		MaxPerUser:    h.MaxPerUser,
		MaxQueue:      *h.MaxQueue,
		QueueWait:     time.Duration(h.MaxQueueWait),
		IdleTimeout:   time.Duration(h.IdleTimeout),
		Keepalive:     time.Duration(h.Keepalive),
		Exit:          exit.begun,
		DrainTimeout:  time.Duration(h.DrainTimeout),
		Tools:         h.ToolOptions,
		StopGrace:     time.Duration(h.StopAfterToolsGrace),
		Responses:     store,
		Running:       runningResponses,
		Observer:      observer{turns: ctx.Logger().Named(turnLogger)},
		User:          userOf,
		Logger:        ctx.Slogger(),
		Aliases:       h.aliases(),
		NoReasoning:   !*h.Reasoning,
		Instructions:  h.Instructions,
	}
	if h.ImageFetch {
		h.images = imagefetch.New(imagefetch.Options{})
		options.Images = h.images
	}
	h.gateway = gateway.New(h.pool, options)
	queues.add(h.gateway)
	for _, alias := range options.Aliases {
		h.pool.app.aliases = append(h.pool.app.aliases, alias.ID)
	}
	return nil
}

// Cleanup takes the handler out of the metrics, closes idle connections and lets
// go of the store of responses. Requests of this configuration may still run, and
// use the last two. A handler that was refused is cleaned up, too.
func (h *Handler) Cleanup() error {
	queues.remove(h.gateway)
	if h.images != nil {
		h.images.Close()
	}
	if h.closeStore == nil {
		return nil
	}
	release := h.closeStore
	h.closeStore = nil // a second call must not release what is another handler's
	return release()
}

// complete sets the defaults and refuses values that cannot work.
func (h *Handler) complete() error {
	if err := completeOptions(h.options()); err != nil {
		return err
	}
	if h.MaxBodyMemory == 0 {
		h.MaxBodyMemory = max(512<<20, minBodies*min(h.MaxBody, math.MaxInt64/minBodies))
	}
	if h.MaxBodyMemory/minBodies < h.MaxBody {
		return fmt.Errorf("max_body_memory: must be at least four times max_body, which is %d bytes", h.MaxBody)
	}
	if h.MaxPerUser > h.MaxConcurrent {
		return fmt.Errorf("max_per_user: must be at most max_concurrent, which is %d", h.MaxConcurrent)
	}
	if len(h.AppServers) == 0 {
		h.AppServers = []*AppServer{{}}
	}
	for _, a := range h.AppServers {
		if err := a.validate(); err != nil {
			return fmt.Errorf("app_server: %w", err)
		}
	}
	return nil
}

// ServeHTTP answers the API's paths and passes others on.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	route, ok := routeOf(r.URL.Path)
	if !ok {
		return next.ServeHTTP(w, r)
	}
	setRequestID(w, r)
	if h.cors.serve(w, r) {
		return nil
	}
	h.serve(route, w, r)
	return nil // an error here would make Caddy append a page to what was sent
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
