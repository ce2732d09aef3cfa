package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/pool"
)

// Pool is the policy by which an app-server is chosen for a turn. But if an app-server has kept a
// thread of a conversation, it also gets the conversation's next turn, whatever the policy.
type Pool struct {
	// `spread`: the app-server with the fewest turns. `reserve`: like `spread`, but the app_servers
	// of the reserve get turns only if no other app-server can take them. Default: `spread`.
	Policy string `json:"policy,omitempty" option:"spread|reserve" default:"spread"`

	// For `reserve`: how many app_servers, counted from the last, are the reserve. Default: 1.
	Reserve int `json:"reserve,omitempty" option:"<n>"`
}

// parse reads <policy> [<n>].
func (p *Pool) parse(d *caddyfile.Dispenser) error {
	return option.ParseLine(d, option.Of(p), p.complete)
}

// complete sets the default of Reserve for its policy, and refuses it with any other one.
func (p *Pool) complete() error {
	if p.Policy == pool.PolicyReserve {
		p.Reserve = max(1, p.Reserve)
	} else if p.Reserve != 0 {
		return fmt.Errorf("pool: only the policy %s has a reserve", pool.PolicyReserve)
	}
	return nil
}

// check sets the defaults, and refuses a policy that does not fit the app-servers.
func (p *Pool) check(servers []*AppServer) error {
	if err := option.Complete(p); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := p.complete(); err != nil {
		return err
	}
	if p.Policy == pool.PolicyReserve && p.Reserve >= len(servers) {
		return fmt.Errorf("pool: of %d app_servers %d cannot be the reserve", len(servers), p.Reserve)
	}
	return nil
}

// newPool registers the app-servers' processes with the app, and returns the handler's pool.
func newPool(app *App, servers []*AppServer, policy Pool, repl *caddy.Replacer) (*pool.Pool, error) {
	var all []pool.Server
	for i, server := range servers {
		cfg, err := server.resolve(repl)
		if err != nil {
			return nil, fmt.Errorf("app_server %d: %w", i+1, err)
		}
		all = append(all, pool.Server{Config: cfg, Processes: server.Processes, Limits: server.Conversations.limits()})
	}
	p, err := app.servers.Pool(all, pool.Policy{Name: policy.Policy, Reserve: policy.Reserve})
	if same, ok := errors.AsType[*pool.SameError](err); ok {
		return nil, fmt.Errorf("app_server %d is the same as one before it; for more processes there is the option processes", same.Index+1)
	}
	return p, err
}
