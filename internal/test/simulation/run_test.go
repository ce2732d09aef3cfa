package simulation

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	books "github.com/caddy-codex/caddy-codex/internal/usage"
)

// run is one run of a plan.
type run struct {
	plan       *plan
	recordings *fakecodex.Transcripts
	trace      *trace
	logger     *slog.Logger
	network    *network
	server     *http.Server
	serverLog  logbook.Book
	fleet      *fleet
	recorder   *recorder.Recorder
	record     recorder.Rule
	store      *objects.Store
	running    *objects.Running
	exit       context.Context
	exitNow    context.CancelFunc
	exiting    sync.WaitGroup // goroutines started by the exit

	leases, turns, answers atomic.Int64

	mu           sync.Mutex
	failures     []string
	requests     map[string]*request
	unread       atomic.Int64        // bytes of large answers that wait for hogs who do not read them
	performances map[string][]spoken // by token
	callIDs      map[string]string   // token by call id
	wanted       map[string]string   // what the model is to be given, by token
	users        map[string][]string // who has sent it, by token
	allowed      map[string]int      // how often the model may be asked, by token
	owners       map[string]string   // users of threads
	spent        map[string]usage    // by threads
	talks        []*talk
	walkers      map[string]*walker // by the tokens of their requests
	sealed       map[string]string  // users of summaries that clients keep
	seen         map[string]int     // what has happened, for TestConversationsGoOn
	served       int                // how many requests
	gateways     []*gateway.Gateway
	current      *gateway.Gateway
	pool         *pool
	generation   int // generation of the app-servers in the configuration

	decoding  atomic.Int64 // how many images the app-servers decode
	started   sync.Mutex
	instances []*appServer
	healed    bool // instances have no faults from now on
}

// play runs a plan and returns the run.
func play(p *plan, recordings *fakecodex.Transcripts) *run {
	return playRecorded(p, recordings, recorder.Rule{})
}

// playRecorded runs a plan of which the rule says what is recorded.
func playRecorded(p *plan, recordings *fakecodex.Transcripts, record recorder.Rule) *run {
	r := &run{
		plan: p, recordings: recordings, recorder: recorder.New(nil), record: record, trace: newTrace(), network: newNetwork(),
		logger: slog.New(slog.DiscardHandler), store: objects.NewStore(store.NewMemory(64<<20, time.Hour), slog.New(slog.DiscardHandler)), running: objects.NewRunning(),
		requests: make(map[string]*request), performances: make(map[string][]spoken), callIDs: make(map[string]string), wanted: make(map[string]string),
		users: make(map[string][]string), allowed: make(map[string]int), owners: make(map[string]string), spent: make(map[string]usage),
		walkers: make(map[string]*walker), sealed: make(map[string]string), seen: make(map[string]int),
	}
	for i := range p.Clients {
		for j := range p.Clients[i].Requests {
			r.requests[p.Clients[i].Requests[j].Token] = &p.Clients[i].Requests[j]
		}
	}
	for i := range p.Hogs {
		r.requests[p.Hogs[i].Background.Token] = &p.Hogs[i].Background
	}
	r.exit, r.exitNow = context.WithCancel(context.Background())
	r.fleet = &fleet{run: r, processes: make(map[string]*process)}
	r.configure(true)
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), Protocols: new(http.Protocols), ErrorLog: log.New(&r.serverLog, "", 0)}
	r.server.Protocols.SetHTTP1(true)
	r.server.Protocols.SetUnencryptedHTTP2(true)
	var serving sync.WaitGroup
	serving.Go(func() { _ = r.server.Serve(r.network) })
	r.clientsAndEvents()
	if r.exit.Err() == nil {
		r.heal()
		r.probe()
	}
	r.settle()
	r.end()
	serving.Wait()
	return r
}

// clientsAndEvents runs all clients and events of the plan.
func (r *run) clientsAndEvents() {
	var all sync.WaitGroup
	for _, e := range r.plan.Events {
		all.Go(func() {
			time.Sleep(e.At)
			r.happen(e.What)
		})
	}
	for _, h := range r.plan.Hogs {
		all.Go(func() { r.hog(h) })
	}
	for i := range r.plan.Longs {
		all.Go(func() { r.walk(&r.plan.Longs[i]) })
	}
	for i := range r.plan.Clients {
		all.Go(func() { r.newClient(&r.plan.Clients[i]).run() })
	}
	all.Wait()
}

func (r *run) happen(what string) {
	r.trace.add("%s", what)
	switch what {
	case reloadSame:
		r.configure(false)
	case reloadChanged:
		r.configure(true)
	case reloadFailed: // its processes started, but it did not
		r.fleet.pool([]string{fmt.Sprintf("failed-%d", len(r.trace.lines))}).release()
	case restart:
		r.mu.Lock()
		members := r.pool.members
		r.mu.Unlock()
		for _, m := range members {
			_ = m.Restart() // many states refuse it
		}
	case killAll:
		for _, s := range r.living() {
			s.kill()
		}
	case shutDown:
		r.shutDown()
	case look:
		r.look("/readyz")
		r.look("/v1/models")
	}
}

// configure loads a configuration, with new app-servers if changed.
func (r *run) configure(changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed {
		r.generation++
	}
	before := r.pool
	var keys []string
	for i := range r.plan.Servers {
		keys = append(keys, fmt.Sprintf("%d-%d", r.generation, i))
	}
	r.pool = r.fleet.pool(keys)
	if r.current != nil {
		r.current.CloseSockets()
	}
	c := r.plan.Config
	r.current = gateway.New(r.pool, gateway.Options{
		MaxBody: c.MaxBody, MaxBodyMemory: c.BodyMemory, MaxConcurrent: c.Concurrent, MaxPerUser: c.PerUser, MaxQueue: c.Queue, QueueWait: c.QueueWait,
		IdleTimeout: c.Idle, Keepalive: c.Keepalive, Exit: r.exit, DrainTimeout: c.Drain,
		Tools: turn.ToolOptions{
			OutputMode: turn.ModeAuto, TextualTools: turn.TextualAuto, StopAfterTools: turn.StopBurst,
			ToolBlockMax: 50, ToolBlockDedup: true,
		},
		StopGrace: turn.DefaultGrace,
		Responses: r.store, Running: r.running, Observer: r,
		User:    func(request *http.Request) string { return request.Header.Get("X-User") },
		Several: func() bool { return len(r.plan.Hogs) > 0 },
		Logger:  r.logger,
		Shorten: c.Shorten, Recorder: r.recorder, Record: r.record,
	})
	r.gateways = append(r.gateways, r.current)
	if before != nil {
		before.release()
	}
}

// serve routes a request, like the handler in caddymodule.
func (r *run) serve(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	g := r.current
	r.served++
	request.Header.Set("X-Request-Id", fmt.Sprintf("request-%d", r.served))
	r.mu.Unlock()
	switch path := request.URL.Path; {
	case path == "/v1/responses" && request.Header.Get("Upgrade") != "":
		g.ServeSocket(gateway.Find(path), w, request, func(request *http.Request, serve func(*http.Request)) { serve(request) })
	case path == "/v1/messages":
		g.Serve(gateway.Find(path), w, request.WithContext(context.WithValue(request.Context(), apierror.EncoderKey{}, apierror.Encoder(messages.EncodeError))))
	case path == "/readyz":
		g.Ready(w, request)
	case path == "/v1/models":
		g.Models(w, request)
	case gateway.Find(path) != nil:
		g.Serve(gateway.Find(path), w, request)
	default: // with ids: /v1/responses/{id}, /v1/conversations/{id}/items/{item}, and what lies between
		parts := strings.Split(path, "/")
		var ids []string
		for i := 3; i < len(parts); i += 2 {
			ids = append(ids, parts[i])
			parts[i] = "*"
		}
		if rt := gateway.Find(strings.Join(parts, "/")); rt != nil {
			g.Serve(rt, w, request, ids...)
		}
	}
}

// nextInstance returns the next instance of an app-server.
func (r *run) nextInstance() *appServer {
	r.started.Lock()
	defer r.started.Unlock()
	s := &appServer{
		number: len(r.instances), run: r, random: rand.New(rand.NewPCG(r.plan.Seed, uint64(len(r.instances)))),
		stdin: newPipe(1 << 20), stdout: newPipe(64 << 10), stderr: newPipe(64 << 10), exited: make(chan struct{}),
		opened: make(map[string]bool), running: make(map[string]bool), decoding: make(map[string]bool), asked: make(map[string]call),
	}
	s.ctx, s.die = context.WithCancelCause(context.Background())
	if !r.healed && s.number < len(r.plan.Lives) {
		s.life = r.plan.Lives[s.number]
	}
	r.instances = append(r.instances, s)
	return s
}

// living returns the instances that have not ended.
func (r *run) living() (all []*appServer) {
	r.started.Lock()
	defer r.started.Unlock()
	for _, s := range r.instances {
		if !s.life.Unstartable && !s.dead() {
			all = append(all, s)
		}
	}
	return all
}

// perform returns a turn, and checks that it belongs to a request of a client.
func (r *run) perform(instance int, asked fakecodex.Asked) []fakecodex.Step {
	given := asked.History
	gjson.Get(asked.Params, "input").ForEach(func(_, part gjson.Result) bool {
		given += part.Get("text").Str + "\x00"
		return true
	})
	if facts := factsIn(given); len(facts) > 0 {
		return r.performLong(instance, asked, given, facts)
	}
	last := strings.TrimSuffix(given, "\x00")
	token := tokenOf(last[strings.LastIndexByte(last, 0)+1:])
	request := r.requests[token]
	if request == nil {
		r.fail("an app-server was asked what no client asks: %.200q", last)
		request = &request0
	}
	thread := threadOf(instance, asked.Thread)
	r.checkGiven(token, given, asked.Reasoning, thread)
	r.mu.Lock()
	n := len(r.performances[token])
	performance := request.Script.performance(token, n)
	steps, heard := perform(asked, request.Script, performance, r.spent[thread])
	heard.number = n
	r.performances[token] = append(r.performances[token], heard)
	spent := r.spent[thread]
	spent.add(performance.usage)
	r.spent[thread] = spent
	allowed := r.allowed[token]
	r.mu.Unlock()
	if n >= allowed {
		r.fail("%s: the model is asked %d times for %d choices", token, n+1, allowed)
	}
	return steps
}

func (r *run) look(path string) {
	p := r.newClient(&client{User: "watcher"})
	status, body, err := p.elsewhere(http.MethodGet, path)
	_, hung, _ := r.faults()
	known := status == http.StatusOK || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout && hung
	if r.exit.Err() == nil && (err != nil || !known || !gjson.ValidBytes(body)) {
		r.fail("%s says %d, %v, %.300q", path, status, err, body)
	}
}

// request0 stands for a request that is in no plan.
var request0 = request{Choices: 1 << 20, Script: &script{Texts: []int{10}, Delta: 10, End: endWell}}

func (r *run) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.trace.add("WRONG: %s", text)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

// AnswerBegan implements gateway.Observer.
func (r *run) AnswerBegan(bool) (ended func()) {
	r.answers.Add(1)
	return func() { r.answers.Add(-1) }
}

// TurnsEnded implements gateway.Observer.
func (r *run) TurnsEnded(context.Context, []books.Record) {}

// RequestFailed implements gateway.Observer.
func (r *run) RequestFailed(*http.Request, *apierror.Error) {}

// heal waits for closed connections and ends instances that would fail, except those that hang.
func (r *run) heal() {
	r.started.Lock()
	r.healed = true
	r.started.Unlock()
	time.Sleep(patience)
	for _, s := range r.living() {
		switch {
		case s.hangs():
			r.fail("app-server %d hangs, and nobody has ended it", s.number)
		case !s.life.sound():
			r.trace.add("app-server %d is killed to heal", s.number)
			s.kill()
		}
	}
	time.Sleep(patience)
}

// patience is enough virtual time for everything that ends by itself.
const patience = 130 * time.Second

// probe sends a request for all slots, which must succeed.
func (r *run) probe() {
	last := request{Token: tokenPrefix + "probe", Choices: r.plan.Config.heaviest(), Prompt: 10, Script: &script{Texts: []int{100}, Delta: 20, End: endWell}}
	r.mu.Lock()
	r.requests = map[string]*request{last.Token: &last}
	r.mu.Unlock()
	c := r.newClient(&client{User: "probe", Links: []link{{Room: 1 << 16}}, Requests: []request{last}})
	c.strict = true
	c.run()
}

// settle checks that nothing is left.
func (r *run) settle() {
	time.Sleep(patience)
	if l, t, a := r.leases.Load(), r.turns.Load(), r.answers.Load(); l != 0 || t != 0 || a != 0 {
		r.fail("left: %d leases, %d references of turns, %d answers", l, t, a)
	}
	for i, g := range r.gateways {
		if held := g.Held(); held != (gateway.Held{}) {
			r.fail("left in configuration %d: %+v", i, held)
		}
	}
	for _, p := range r.fleet.all {
		if n := p.Status().Threads; n != 0 {
			r.fail("left: a process has %d threads", n)
		}
	}
	for _, s := range r.living() {
		if threads, turns := s.left(); s.life.sound() && threads+turns > 0 {
			r.fail("left on app-server %d: %d threads, %d turns", s.number, threads, turns)
		}
	}
}

// shutDown starts the exit like Caddy: it accepts no connections, and requests in progress may end.
func (r *run) shutDown() {
	r.exitNow()
	r.exiting.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.plan.Config.Drain+2*time.Minute)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			r.fail("requests outlast the drain timeout: %v", err)
			_ = r.server.Close()
		}
	})
}

func (r *run) end() {
	r.shutDown()
	r.exiting.Wait()
	r.pool.release()
	r.fleet.stops.Wait()
	if n := r.fleet.left(); n != 0 {
		r.fail("left: %d processes", n)
	}
	for _, p := range r.fleet.all {
		if state := p.Status().State.String(); state != "stopped" {
			r.fail("a process is %s at the end", state)
		}
	}
	for _, s := range r.living() {
		r.fail("app-server %d lives on", s.number)
		s.kill()
	}
	if text := r.serverLog.String(); strings.Contains(text, "panic") {
		r.fail("a handler has panicked: %s", text)
	}
}

// trace is a list of events with their virtual times.
type trace struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
}

func newTrace() *trace { return &trace{begin: time.Now()} }

// maxTrace bounds the trace of a run.
const maxTrace = 2000

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < maxTrace {
		t.lines = append(t.lines, fmt.Sprintf("%12s  ", time.Since(t.begin).Round(time.Microsecond))+fmt.Sprintf(format, args...))
	}
}
