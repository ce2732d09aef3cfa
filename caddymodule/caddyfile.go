package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("codex", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterHandlerDirective("codex_keys", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(KeysHandler)
		if h.Next(); h.NextArg() {
			return nil, h.ArgErr()
		}
		return handler, option.ParseBlock(h.Dispenser, &handler.Keys, map[string]option.Custom{"api_key": {Parse: handler.parseAPIKey, Repeats: true}})
	})
	httpcaddyfile.RegisterDirectiveOrder("codex_keys", httpcaddyfile.After, "basic_auth")
	// The handler relies on authentication, request_body and encode, which must run earlier.
	httpcaddyfile.RegisterDirectiveOrder("codex", httpcaddyfile.Before, "respond")
}

// UnmarshalCaddyfile reads the directive, see docs/configuration.md and docs/tool-calls.md for its
// options. Only app_server, api_key, env, model and textual_pattern may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.ParseBlock(d, h, h.customOptions())
}

func (h *Handler) customOptions() map[string]option.Custom {
	return map[string]option.Custom{
		"app_server":       {Parse: h.parseAppServer, Repeats: true},
		"pool":             {Parse: h.Pool.parse},
		"api_key":          {Parse: h.parseAPIKey, Repeats: true},
		"admin_key":        {Parse: h.parseAdminKey},
		"max_queue":        {Check: h.checkQueue},
		"store":            {Parse: h.parseStore},
		"record":           {Parse: h.Record.parse},
		"cors":             {Parse: h.parseCORS},
		"hosts":            {Parse: func(d *caddyfile.Dispenser) error { return parseTexts(d, &h.Hosts) }},
		"realm":            {Check: func() error { return checkRealm(h.Realm) }},
		"model":            {Parse: h.parseModel, Repeats: true},
		"stop_after_tools": {Check: h.checkGrace},
		"textual_pattern":  {Parse: h.parseTextualPattern, Repeats: true},
	}
}

func (a *AppServer) customOptions() map[string]option.Custom {
	return map[string]option.Custom{
		"command":       {Parse: a.parseCommand},
		"env":           {Parse: a.parseEnv, Repeats: true},
		"conversations": {Parse: a.Conversations.parse},
	}
}

func (h *Handler) parseAppServer(d *caddyfile.Dispenser) error {
	server := &AppServer{Command: d.RemainingArgs()}
	h.AppServers = append(h.AppServers, server)
	return option.ParseBlock(d, server, server.customOptions())
}

func (a *AppServer) parseCommand(d *caddyfile.Dispenser) error {
	if len(a.Command) > 0 {
		return d.Err("the command is given twice: beside app_server and in its block")
	}
	return parseTexts(d, &a.Command)
}

func (a *AppServer) parseEnv(d *caddyfile.Dispenser) error {
	var name, value string
	if !d.AllArgs(&name, &value) {
		return d.Err("env takes a name and a value") // not ArgErr, which may show the value
	}
	if _, twice := a.Env[name]; twice {
		return d.Errf("env %s is given twice", name)
	}
	if a.Env == nil {
		a.Env = make(map[string]string)
	}
	a.Env[name] = value
	return nil
}

// parseTexts reads the rest of a line into field. There must be at least one text.
func parseTexts(d *caddyfile.Dispenser, field *[]string) error {
	if *field = d.RemainingArgs(); len(*field) == 0 {
		return d.ArgErr()
	}
	return nil
}

// parseAPIKey reads <key> [<user>].
func (k *Keys) parseAPIKey(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return d.Err("api_key takes a key and, if wanted, a user") // not ArgErr, which may show the key
	}
	args = append(args, "")
	k.APIKeys = append(k.APIKeys, APIKey{Key: args[0], User: args[1]})
	return nil
}

func (h *Handler) checkQueue() error {
	if *h.MaxQueue == 0 && h.MaxQueueWait > 0 {
		return errors.New("nobody waits in a queue of 0, so it has no wait")
	}
	return nil
}

func (h *Handler) checkGrace() error {
	if h.StopAfterTools == turn.StopOff && h.StopAfterToolsGrace != nil {
		return errors.New("off has no grace")
	}
	return nil
}

// parseCORS reads <origin>... or off.
func (h *Handler) parseCORS(d *caddyfile.Dispenser) error {
	if err := parseTexts(d, &h.CORS); err != nil || !slices.Contains(h.CORS, "off") {
		return err
	}
	if len(h.CORS) > 1 {
		return d.Err("off stands alone")
	}
	h.CORS = nil
	return nil
}

// parseModel reads <id> [<codex model> [<effort> [force]]].
func (h *Handler) parseModel(d *caddyfile.Dispenser) error {
	var alias prompt.Alias
	if err := option.ParseLine(d, option.Of(&alias), nil); err != nil {
		return err
	}
	if slices.ContainsFunc(h.Models, func(m prompt.Alias) bool { return m.ID == alias.ID }) {
		return d.Errf("model %s is given twice", alias.ID)
	}
	h.Models = append(h.Models, alias)
	return nil
}

// newAliases returns the aliases for the gateway. It refuses aliases that cannot work, and empty or
// unknown placeholders: Codex has no model with the name that would result.
func (h *Handler) newAliases(repl *caddy.Replacer) ([]prompt.Alias, error) {
	var aliases []prompt.Alias
	seen := make(map[string]bool, len(h.Models))
	for i, m := range h.Models {
		id, idErr := repl.ReplaceOrErr(m.ID, true, true)
		model, modelErr := repl.ReplaceOrErr(m.Model, true, true)
		optionErr := option.Complete(&m)
		switch {
		case errors.Join(idErr, modelErr) != nil:
			return nil, fmt.Errorf("model %d has a placeholder that is empty or unknown", i+1)
		case strings.TrimSpace(id) == "":
			return nil, fmt.Errorf("model %d: the id must not be empty", i+1)
		case seen[id]:
			return nil, fmt.Errorf("model %d has the name of another one, %s", i+1, id)
		case optionErr != nil:
			return nil, fmt.Errorf("model: %s: %w", id, optionErr)
		case strings.HasSuffix(id, "*") && m.Model == "":
			return nil, fmt.Errorf("model: %s stands for many names and needs the model that they mean, such as default", id)
		case strings.Contains(strings.TrimSuffix(id, "*"), "*"):
			return nil, fmt.Errorf("model: %s: a * must be the last character; it stands for the rest of a name", id)
		case m.ForceEffort && m.Effort == "":
			return nil, fmt.Errorf("model: %s has no effort to force", id)
		}
		seen[id] = true
		m.ID, m.Model = id, cmp.Or(model, id)
		aliases = append(aliases, m)
	}
	return aliases, nil
}
