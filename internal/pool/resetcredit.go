package pool

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
)

// spendTimeout bounds the wait for the provider when a reset credit is spent.
const spendTimeout = 15 * time.Second

// SpendResetCredit spends a credit of the login to reset the windows of its plan. Turns then use the login
// again. key identifies the attempt, see [codexrpc.Conn.SpendResetCredit]. The attempt outlives ctx.
func (p *Process) SpendResetCredit(ctx context.Context, key string) (codexrpc.ResetOutcome, error) {
	ctx = context.WithoutCancel(ctx)
	conn := p.Serving()
	if conn == nil {
		return "", errors.New("the app-server is not ready")
	}
	spending, cancel := context.WithTimeout(ctx, spendTimeout)
	defer cancel()
	outcome, err := conn.SpendResetCredit(spending, key)
	if err != nil { // err is not logged: it may have addresses of the provider
		p.Log().Warn("a reset credit of the login was to be spent, and that has failed", "app_server", p.id)
		return "", err
	}
	p.Log().Info("a reset credit of the login was to be spent", "app_server", p.id, "outcome", string(outcome))
	done := outcome == codexrpc.ResetDone || outcome == codexrpc.ResetDoneSince
	if done {
		p.login.Recover(loginstate.Spent) // first, so that turns do not wait for the limits
	}
	reading, end := context.WithTimeout(ctx, statusTimeout)
	defer end()
	p.RateLimits(reading, 0)
	if done {
		p.login.thresholds.Forget() // only now: the old limits would be reported again
	}
	return outcome, nil
}
