package gateway

import (
	"cmp"
	"context"
	"math"
)

// window returns the context window, in tokens, of one of Codex's models; of the default model if the name is
// empty. 0: not known. It is the smallest one of all app-servers. More tokens than most fit nowhere.
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
		if most = max(most, known.MaxWindow); known.MaxWindow == 0 || !in.Conn().HasPlan() {
			most = math.MaxInt // the catalogue has the limits of plans: by API key, more may fit
		}
	}
	return window, cmp.Or(most, math.MaxInt)
}
