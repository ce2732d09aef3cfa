package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/pool"
)

// TestPoolOption checks the values of pool.
func TestPoolOption(t *testing.T) {
	for text, want := range map[string]Pool{
		"pool spread":  {Policy: pool.PolicySpread},
		"pool reserve": {Policy: pool.PolicyReserve, Reserve: 1}, "pool reserve 2": {Policy: pool.PolicyReserve, Reserve: 2},
	} {
		h := new(Handler)
		if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + text + "\n}")); err != nil || h.Pool != want {
			t.Errorf("%s: %+v, %v", text, h.Pool, err)
		}
	}
	for text, want := range map[string]string{
		"pool": "argument", "pool most": `"most" must be one of`, "pool spread 2": "only the policy reserve", "pool reserve 0": "above zero", "pool reserve x": "above zero",
		"pool reserve 1 2": "argument", "pool spread\npool spread": "twice",
		"pool reserve\napp_server a":                 "of 1 app_servers 1 cannot be the reserve",
		"pool reserve 2\napp_server a\napp_server b": "of 2 app_servers 2 cannot",
	} {
		h := new(Handler)
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("codex {\n" + text + "\n}"))
		if err == nil {
			err = h.complete()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
