// Package caddymodule is the Caddy side of caddy-codex: the handler http.handlers.codex with
// its Caddyfile directive codex, and the app codex, which owns the app-servers. The APIs of
// the clients and the protocol of Codex are in other packages.
package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// The memory for bodies has room for minBodies bodies of the size max_body, at least minBodyMemory bytes.
const (
	minBodies     = 4
	minBodyMemory = 512 << 20
)

// Handler answers the OpenAI API with a managed `codex app-server`.
//
// It serves POST /v1/chat/completions, /v1/responses, /v1/conversations, /v1/messages and
// the routes below the last three, GET /v1/models, GET /v1/models/{id}, GET /v1/usage, GET
// /v1/usage/raw, GET /api/hello, GET /healthz and GET /readyz. The options images,
// page and ollama add routes. An unknown path below /v1/ is a 404 in OpenAI's or Anthropic's
// format. Requests for any other path are passed to the next handler.
type Handler struct {
	// The app-servers to use. Default: one, `codex app-server`.
	AppServers []*AppServer `json:"app_servers,omitempty"`

	// How an app-server is chosen for a turn. An app-server takes precedence if it is ready and has a
	// usable login: signed in, with a plan that is not spent and a provider that has not just failed.
	Pool Pool `json:"pool,omitzero"`

	Keys

	// The largest request body, in bytes. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty" option:"<size>" default:"32MiB"`

	// How many turns run at the same time. Further requests wait. Default: 64.
	MaxConcurrent int `json:"max_concurrent,omitempty" option:"<n>" default:"64"`

	// How many turns of one user run at the same time. Further requests of the user wait, and
	// requests of other users overtake them. Callers without a name are one user. Default:
	// max_concurrent. But if the keys have several users, or another user has sent a request within
	// the last hour, the default is seven turns for each slot that stays free: for example, 56
	// turns and 8 free slots of 64.
	MaxPerUser int `json:"max_per_user,omitempty" option:"<n>"`

	// How many requests may wait. If that many requests wait, a further request gets a 429 with the code
	// codex_queue_full. But if another user has at least two more waiting requests than the user of this
	// request, the newest waiting request of the user with the most waiting requests gets the 429 instead.
	// 0: no request waits. Default: 128.
	MaxQueue *int `json:"max_queue,omitempty" option:"<n>" default:"128"`

	// How long a request may wait until it gets a 503 with the code codex_queue_timeout.
	// Default: `10s`.
	MaxQueueWait caddy.Duration `json:"max_queue_wait,omitempty" option:"max_queue [<duration>]" default:"10s"`

	// How long the model may be silent within a turn before the client gets a 504. Codex itself
	// gives up a silent provider, by default after five minutes. This timeout is not for an
	// app-server that hangs: that is detected within seconds. Default: `6m`.
	IdleTimeout caddy.Duration `json:"idle_timeout,omitempty" option:"<duration>" default:"6m"`

	// How long a stream may be silent before the handler sends a comment to keep its connection
	// open. Negative: never. Default: `15s`.
	Keepalive caddy.Duration `json:"keepalive,omitempty" option:"<duration>|off" default:"15s"`

	// How long turns may continue when Caddy exits; then they end with the code
	// server_shutting_down. Default: `10s`.
	DrainTimeout caddy.Duration `json:"drain_timeout,omitempty" option:"<duration>" default:"10s"`

	// Where responses and conversations are stored. Default: `memory`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=http.codex.stores inline_key=type"`

	// The origins of web pages that may use the API, such as `https://app.example` or Obsidian's
	// `app://obsidian.md`, or `*` alone for all. Placeholders are resolved when the
	// configuration is loaded. Default: none; answers then have no CORS headers.
	CORS []string `json:"cors,omitempty"`

	// The host names, or patterns such as `*.example.com`, under which callers may send
	// requests that neither a key nor another handler has authenticated. Localhost, IP
	// addresses and the names in the host matchers of the routes that lead to this handler are
	// always allowed. Placeholders are resolved when the configuration is loaded. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// Whose usage /v1/usage and /v1/usage/raw show, and whose requests the page lists. `own`: only
	// the caller's user. `all`: all users of this Caddy. Default: `own`.
	Usage string `json:"usage,omitempty" option:"own|all" default:"own"`

	// What becomes of a request that no login can serve, since the plan of each is spent. `error`: the client gets a
	// 429. `next`: the next handler of the route gets the request as it came. Default: `error`.
	Spent string `json:"spent,omitempty" option:"error|next" default:"error"`

	// Which requests are recorded, with all that belongs to them. Default: those for which it is switched on.
	Record Record `json:"record,omitzero"`

	// The realm of the users. Users with the same name in one realm are one user: they share usage,
	// stored responses and conversations. Placeholders are resolved when the configuration is
	// loaded. Default: the first name of the host matcher of this handler's site, or the address of
	// the server if there is no host matcher.
	Realm string `json:"realm,omitempty" option:"<text>"`

	// Whether a page for people is served at /codex/: a playground, and the state of the
	// app-servers, plans and usage. It asks for a key if there are keys. Default: false.
	Page bool `json:"page,omitempty" option:"on|off"`

	// Whether the handler also serves Ollama's API: at `/`, and at `/api/chat` and the other routes
	// below /api/. Clients may then append `:latest` to the names of models on every route.
	// Ollama's API is best served on a site of its own, at port 11434. Default: false.
	Ollama bool `json:"ollama,omitempty" option:"on|off"`

	// The key for administrators on the page. Whoever has it can sign app-servers in, spend reset
	// credits, and see the requests of all users, all credits, and what identifies this machine.
	// The key must have 16 characters or more and must not be an API key. It needs `page`.
	// Placeholders are resolved when the configuration is loaded. Default: none; then
	// administration is possible only by the admin API.
	AdminKey string `json:"admin_key,omitempty"`

	// Your own names for Codex's models. GET /v1/models lists them after Codex's models. If a model
	// has the same name, your name takes precedence.
	Models []prompt.Alias `json:"models,omitempty"`

	// Whether the handler fetches images that a request names by an https URL. If not, it refuses
	// such a request. To fetch images, it contacts only public addresses, and it bounds the number
	// of images, their size and the time. Default: false.
	ImageFetch bool `json:"image_fetch,omitempty" option:"on|off"`

	// Whether there are routes for pictures, /v1/images/generations and /v1/images/edits. They need a
	// ChatGPT login with a plan that is not free. Default: false.
	Images bool `json:"images,omitempty" option:"on|off"`

	// Whether the model may search the web for requests that ask for it, with the tool web_search
	// or with web_search_options. The provider runs the searches. Default: false.
	WebSearch bool `json:"web_search,omitempty" option:"on|off"`

	// Whether a conversation that would not fit the model's window is shortened by a summary, in requests
	// whose API has no form to ask for that: chat completions and Ollama's API. The summary is a turn of its
	// own, which counts like any other. Default: false; such a request is refused.
	Shorten bool `json:"shorten,omitempty" option:"on|off"`

	// Whether clients get the summaries of the model's reasoning, as
	// reasoning_content and as reasoning items. Default: true.
	Reasoning *bool `json:"reasoning,omitempty" option:"on|off" default:"on"`

	// Where the instructions of a conversation (the system and developer messages at its beginning)
	// go. `replace`: they replace Codex's own prompt. `append`: they follow Codex's own prompt.
	// `auto`: like `replace`, until the model's provider refuses the replacement for the login;
	// from then on like `append`. Default: `auto`.
	Instructions conversation.Instructions `json:"instructions,omitempty" option:"auto|replace|append" default:"auto"`

	turn.ToolOptions

	// Textual forms of tool calls besides <use_tool> blocks, by the names of the forms. Each is a
	// module of another plugin. Default: none.
	TextualPatternsRaw caddy.ModuleMap `json:"textual_patterns,omitempty" caddy:"namespace=http.codex.patterns"`

	// With stop_after_tools `burst`: how long a turn waits for another textual block after each
	// block. With `first`: how long a turn goes on after the first call, to learn its usage and
	// whether there are more calls. 0: the turn ends as soon as it has read everything that has
	// already arrived. Default: `300ms`.
	StopAfterToolsGrace *caddy.Duration `json:"stop_after_tools_grace,omitempty" option:"stop_after_tools [<duration>]" default:"300ms"`

	storeModule storemodules.Module
	adminKey    *apikeys.Hash // nil: there is none
	limits      *quota.Limits // of the keys in keyFile
	sharedUsage *usage.Shared // the usage of all nodes; nil: there is none
	refusals    *refusalSample
	server      *caddyhttp.Server // nil: the handler belongs to none
	gateway     *gateway.Gateway
	releases    []func() // called by Cleanup
	cors        cors
	hosts       *hosts
	realmSuffix string // @ and the option realm; empty: the realm of the site is used
	pool        *pool.Pool
	recordFiles *recorder.Directory // nil: there are none
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.codex",
		New: func() caddy.Module { return new(Handler) },
	}
}

// UnmarshalJSON reads the options, see [option.Decode].
func (h *Handler) UnmarshalJSON(data []byte) error {
	type options Handler
	return option.Decode(data, (*options)(h))
}

// Provision sets the handler up. The app starts the app-servers later.
func (h *Handler) Provision(ctx caddy.Context) error {
	if err := h.complete(); err != nil {
		return err // nothing was registered yet
	}
	repl := caddy.NewReplacer()
	var err error
	if err := h.openKeys(ctx, repl); err != nil {
		return err
	}
	h.refusals = &refusalSample{logger: ctx.Logger()}
	h.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if err := h.resolveAdminKey(repl); err != nil {
		return err
	}
	if h.cors, err = newCORS(h.CORS, repl); err != nil {
		return err
	}
	if h.hosts, err = newHosts(ctx, h.Hosts, repl); err != nil {
		return err
	}
	if err := h.resolveRealm(repl); err != nil {
		return err
	}
	options := h.gatewayOptions(ctx)
	if options.Aliases, err = h.newAliases(repl); err != nil {
		return err
	}
	if options.Patterns, err = h.loadPatterns(ctx); err != nil {
		return err
	}
	// The store is loaded first. Otherwise, Caddy would name it as the origin of the app's events.
	if err := h.loadStore(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return h.setUpGateway(ctx, repl, options)
}

func (h *Handler) setUpGateway(ctx caddy.Context, repl *caddy.Replacer, options gateway.Options) error {
	loaded, err := ctx.App("codex")
	if err != nil {
		return fmt.Errorf("loading the codex app: %w", err)
	}
	app := loaded.(*App)
	if h.pool, err = newPool(app, h.AppServers, h.Pool, repl); err != nil {
		return err
	}
	memory, release := h.pool.Memory(defaultMaxMemory)
	options.Memory = memory
	h.releases = append(h.releases, release)
	options.Recorder = recordings
	if options.Record, err = h.recordRule(ctx, app, repl); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	opened, start, release := storemodules.Open(h.storeModule, ctx.Slogger())
	options.Responses = opened.Store
	options.Sealer = seal.NewSealer(ctx.Storage(), opened.ShareKey, ctx.Slogger())
	h.sharedUsage = opened.Usage
	options.Observer = observer{ctx.Logger().Named("turns"), h.sharedUsage}
	if h.sharedUsage != nil {
		h.releases = append(h.releases, func() { _ = h.sharedUsage.Store(context.Background()) }) // without this, the other nodes would miss the last usage
	}
	h.limits = localLimits
	if opened.Limits != nil {
		h.limits = opened.Limits
	}
	options.Key, options.Limits, options.PlanLimits = h.recheckKey, h.limits, h.planLimits
	h.releases = append(h.releases, release) // after the last usage was stored
	app.storeStarts = append(app.storeStarts, start)
	app.handlers = append(app.handlers, h)
	if h.ImageFetch {
		images := imagefetch.New(imagefetch.Options{})
		options.Images = images
		h.releases = append(h.releases, images.Close)
	}
	if h.Spent == "next" {
		options.Next = func(r *http.Request, body io.Reader) bool {
			if k := h.entryOf(r); k != nil {
				caddyhttp.SetVar(r.Context(), countedVariable, k.Account)
			}
			return r.Context().Value(requestContextKey{}).(*requestContext).passOn(body)
		}
	}
	h.gateway = gateway.New(h.pool, options)
	handlersInUse.add(h)
	h.releases = append(h.releases, h.gateway.CloseSockets, func() { handlersInUse.remove(h) })
	for _, alias := range options.Aliases {
		app.aliases = append(app.aliases, alias.ID)
	}
	return nil
}

// gatewayOptions returns the gateway's options, except what Provision and setUpGateway add.
func (h *Handler) gatewayOptions(ctx caddy.Context) gateway.Options {
	return gateway.Options{
		MaxBody:       h.MaxBody,
		MaxBodyMemory: max(minBodyMemory, minBodies*h.MaxBody),
		MaxConcurrent: h.MaxConcurrent,
		MaxPerUser:    h.MaxPerUser,
		MaxQueue:      *h.MaxQueue,
		QueueWait:     time.Duration(h.MaxQueueWait),
		IdleTimeout:   time.Duration(h.IdleTimeout),
		Keepalive:     time.Duration(h.Keepalive),
		Exit:          exit.untilBegun,
		DrainTimeout:  time.Duration(h.DrainTimeout),
		Tools:         h.ToolOptions,
		StopGrace:     time.Duration(*h.StopAfterToolsGrace),
		Running:       runningResponses,
		Live:          &liveRequests,
		User:          h.accountOf,
		Several:       h.hasSeveralUsers,
		OwnDeadlines:  withoutWriteDeadlines,
		Logger:        ctx.Slogger(),
		Ollama:        h.Ollama,
		WebSearch:     h.WebSearch,
		NoReasoning:   !*h.Reasoning,
		Shorten:       h.Shorten,
		Instructions:  h.Instructions,
	}
}

// Cleanup releases what Provision has acquired, even if Provision failed halfway. Requests of this
// configuration may still run afterwards, and use what was released.
func (h *Handler) Cleanup() error {
	for _, release := range h.releases {
		release()
	}
	h.releases = nil // a second call must not release the references of another handler
	return h.Keys.Cleanup()
}

// complete sets the defaults and refuses values that cannot work.
func (h *Handler) complete() error {
	if err := option.Complete(h); err != nil {
		return err
	}
	if err := h.completeStore(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := option.Complete(&h.Record); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if h.MaxBody > math.MaxInt64/minBodies {
		return fmt.Errorf("max_body: must be at most %d bytes", math.MaxInt64/minBodies)
	}
	switch {
	case h.ToolBlockMax > aggregator.DefaultMaxCalls:
		return fmt.Errorf("tool_block_max: must be at most %d", aggregator.DefaultMaxCalls)
	case h.MaxPerUser > h.MaxConcurrent:
		return fmt.Errorf("max_per_user: must be at most max_concurrent, which is %d", h.MaxConcurrent)
	}
	if len(h.AppServers) == 0 {
		h.AppServers = []*AppServer{{}}
	}
	for _, a := range h.AppServers {
		if err := a.complete(); err != nil {
			return fmt.Errorf("app_server: %w", err)
		}
	}
	return h.Pool.check(h.AppServers)
}

const exposedWarning = "everybody who reaches this address may use Codex with your login, by one path at least: set api_key or " +
	"api_keys_file, or `bind 127.0.0.1` in the site"

// unhandled is the variable that Caddy's last handler sets to true if no handler has answered.
const unhandled = "unhandled"

// ServeHTTP answers requests for the paths of the API, and passes all other requests on. If no handler
// answers such a request, its client may have a wrong base URL. ServeHTTP then serves the route that the
// path probably means, or else answers with an error that says where the API is.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	route, ok := h.routeOf(r.URL.Path)
	if !ok && h.Page {
		route, ok = pageRoutes[r.URL.Path]
		ok = ok && (!route.admin || h.adminKey != nil)
	}
	if !ok {
		if served, err := serveNext(w, r, next); served {
			return err
		}
		if route, ok = h.misspeltRouteOf(r.URL.Path); !ok {
			if route = notTheAPIRoute; strings.HasPrefix(r.URL.Path, "/api/") {
				route = route.inOllamasForm() // for clients of Ollama's API on a site without the option ollama
			}
		}
	}
	reqCtx := new(requestContext)
	if h.Spent == "next" {
		reqCtx.passOn = reqCtx.newPassOn(w, r, next)
	}
	setRequestID(w, r, &reqCtx.ids)
	route.prepare(w, r, reqCtx)
	if !route.admin && h.cors.serve(w, r) {
		return nil
	}
	h.serve(route, w, r, reqCtx)
	return reqCtx.nextErr // another error would make Caddy append an error page to the answer
}

// countedVariable is set to the account of the key for which a request was counted that goes to the next handler.
const countedVariable = "codex_counted_key"

// serveNext calls the next handler. It returns false if no handler has answered.
func serveNext(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (served bool, err error) {
	caddyhttp.SetVar(r.Context(), unhandled, false) // only handlers after this one are to set it to true
	if err = next.ServeHTTP(w, r); err != nil || caddyhttp.GetVar(r.Context(), unhandled) != true {
		return true, err
	}
	caddyhttp.SetVar(r.Context(), unhandled, false) // this handler answers; handlers before it may read the variable
	return false, nil
}

// newPassOn returns a function that lets the next handler serve a request as it is now, with another body, and
// without what was added to the header of the answer meanwhile. It returns false if no handler has answered.
func (c *requestContext) newPassOn(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) func(body io.Reader) bool {
	original, url, header := *r, *r.URL, maps.Clone(w.Header())
	r.Header = maps.Clone(r.Header)
	return func(body io.Reader) bool {
		own, ownHeader := *r, maps.Clone(w.Header())
		defer func() { *r = own }() // also if next panics: this handler still reports the request
		*r = original               // in place, since handlers before this one use r, too
		r.URL, r.Body = &url, io.NopCloser(body)
		clear(w.Header())
		maps.Insert(w.Header(), maps.All(header))
		if c.passedOn, c.nextErr = serveNext(w, r, next); !c.passedOn {
			maps.Insert(w.Header(), maps.All(ownHeader)) // nobody has added to it
		}
		return c.passedOn
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
