package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// ignoredHeader names the parameters of a request that changed nothing.
const ignoredHeader = "X-Codex-Ignored-Params"

// Chat serves POST /v1/chat/completions.
func (g *Gateway) Chat(w http.ResponseWriter, r *http.Request) {
	// The lease comes first: from here on, a reload cannot take the process away.
	lease, err := g.upstream.Lease()
	if err != nil {
		g.refuse(w, r, openai.FromFailure(err))
		return
	}
	held := true
	defer func() {
		if held {
			lease.Release()
		}
	}()
	chat, refusal := g.readChat(w, r, lease)
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		g.refuse(w, r, openai.QueueFull())
		return
	}
	chat.thread, err = g.start(r.Context(), lease, chat.plan)
	if chat.thread != nil {
		held = false
		defer chat.thread.Close(lease.Release)
	}
	if err != nil {
		g.refuse(w, r, openai.FromFailure(err))
		return
	}
	g.answer(w, r, chat)
}

// chat is one request on its way.
type chat struct {
	plan    *openai.Plan
	options turn.Options
	meta    openai.Meta
	thread  *codexrpc.Thread
}

// readChat reads, checks and maps a chat request.
func (g *Gateway) readChat(w http.ResponseWriter, r *http.Request, lease Lease) (*chat, *openai.Error) {
	body, refusal := g.readBody(w, r)
	if refusal != nil {
		return nil, refusal
	}
	request, refusal := openai.DecodeChat(body)
	if refusal != nil {
		return nil, refusal
	}
	plan, refusal := request.Plan(openai.PlanOptions{Cwd: lease.Process.Dir()})
	if refusal != nil {
		return nil, refusal
	}
	options, refusal := g.opts.Tools.turnOptions(r, request, plan)
	if refusal != nil {
		return nil, refusal
	}
	id := rand.Text()
	options.IDSuffix = strings.ToLower(id[:idSuffixLength])
	meta := openai.Meta{
		ID:           "chatcmpl-" + id,
		Model:        plan.Model,
		Created:      time.Now().Unix(),
		IncludeUsage: plan.IncludeUsage,
	}
	return &chat{plan: plan, options: options, meta: meta}, nil
}

// idSuffixLength gives call ids 40 random bits: enough to tell the turns of a
// conversation apart.
const idSuffixLength = 8

// start starts the thread and the turn of a plan. A thread that is returned is
// the caller's to close, also beside an error.
func (g *Gateway) start(ctx context.Context, lease Lease, plan *openai.Plan) (*codexrpc.Thread, error) {
	conn, err := g.conn(ctx, lease)
	if err != nil {
		return nil, err
	}
	thread, err := g.startThread(ctx, conn, plan, lease.Process.Catalogue(plan.Model))
	if err != nil {
		return nil, err
	}
	if len(plan.History) > 0 {
		if err := thread.InjectItems(ctx, plan.History); err != nil {
			return thread, err
		}
	}
	return thread, thread.StartTurn(ctx, plan.Turn)
}

// catalogueKey names the file with the models' properties in a thread's
// configuration.
const catalogueKey = "model_catalog_json"

// startThread starts the thread of a plan, with a catalogue of models unless
// that is empty: there is one only once the process is ready, later than the
// plan. Codex reads it for each thread; one that is gone or broken by now must
// not fail the turn.
func (g *Gateway) startThread(ctx context.Context, conn *codexrpc.Conn, plan *openai.Plan, catalogue string) (*codexrpc.Thread, error) {
	if catalogue == "" {
		return conn.StartThread(ctx, plan.Thread)
	}
	plan.Thread.Config[catalogueKey] = catalogue // a map of this plan's own
	thread, err := conn.StartThread(ctx, plan.Thread)
	refusal := (*codexrpc.CallError)(nil)
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "failed to load configuration") {
		return thread, err
	}
	delete(plan.Thread.Config, catalogueKey)
	g.opts.Logger.Warn("codex does not take its catalogue of models; the model may be offered tools of codex's own", "error", err)
	return conn.StartThread(ctx, plan.Thread)
}

// answer runs the turn and gives the client what it says.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, c *chat) {
	header := w.Header()
	header.Set(modeHeader, string(c.options.Mode))
	header.Set(stopHeader, string(c.options.Stop))
	if len(c.plan.Ignored) > 0 {
		header.Set(ignoredHeader, strings.Join(c.plan.Ignored, ", "))
	}
	machine := turn.New(c.options)
	send := g.whole
	if c.plan.Stream {
		send = g.stream
	}
	record := send(w, r, c, machine)
	record.Choice = c.options.Choice
	record.Model = c.plan.Model
	record.Mode = c.options.Mode
	record.Stop = c.options.Stop
	record.Stream = c.plan.Stream
	record.Tools = machine.Report()
	g.ended(r, record)
}
