package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// window returns the context window, in tokens, of one of Codex's models; of the default model if the name is
// empty. 0: not known. It is the smallest one of all app-servers. More tokens than most fit at none.
func (g *Gateway) window(ctx context.Context, codexModel string) (window, most int) {
	lease, err := g.upstream.Lease()
	if err != nil {
		return 0, math.MaxInt
	}
	defer lease.Release()
	for _, member := range lease.Members() {
		in, name := member.Process.Ready(), codexModel
		if in == nil {
			continue
		}
		if name == "" {
			name, _ = in.DefaultModel(ctx) // empty after an error: an unknown model
		}
		known := in.Model(name)
		window = min(cmp.Or(window, known.Window), cmp.Or(known.Window, window))
		if most = max(most, known.Window); known.Window == 0 || !in.Conn().HasPlan() {
			most = math.MaxInt // the catalogue has the windows of plans: by API key, more may fit
		}
	}
	if g.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		g.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "the model's window", slog.String("model", codexModel), slog.Int("tokens", window))
	}
	return window, cmp.Or(most, math.MaxInt)
}

// checkWindow refuses a conversation with more tokens than the model can read. It counts tokens only if the
// conversation is estimated to be too long. It leaves out images and what Codex adds: what may fit is passed on.
func (g *Gateway) checkWindow(ex *exchange, req *request, asked *prompt.Conversation) *apierror.Error {
	if g.mayShorten(asked) {
		return nil // Gateway.plan asks for the window
	}
	codexModel, _ := asked.ResolveModel(g.planOptions)
	window, most := g.window(ex.ctx, codexModel)
	// Most conversations fit even if each byte is a token: req.input has at least a token for four bytes.
	if req.input <= int64(most)/prompt.BytesPerToken || asked.EstimateTokens(prompt.SampleBytes) <= most {
		return nil
	}
	count, apiErr := g.countTokens(ex, req.body, asked.CountTokens)
	if apiErr != nil || count <= most {
		return apiErr
	}
	return apierror.WindowExceeded(count, window).WithConversation(req.api.Images)
}
