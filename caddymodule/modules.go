package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
)

// patternNamespace has the [aggregator.Pattern]s, which find tool calls in an answer's text.
const patternNamespace = "http.codex.patterns"

// parseTextualPattern reads <name>. The module of that name reads the rest, if it is a
// caddyfile.Unmarshaler. Otherwise it has no options in the Caddyfile.
func (h *Handler) parseTextualPattern(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	if _, twice := h.TextualPatternsRaw[name]; twice {
		return d.Errf("textual_pattern %s is given twice", name)
	}
	info, err := caddy.GetModule(patternNamespace + "." + name)
	if err != nil && name == "tool_call" {
		return d.Err("textual_pattern tool_call is no longer built in: write a plugin for it, see docs/tool-calls.md, \"Other textual forms\"")
	}
	if err != nil {
		return d.WrapErr(err)
	}
	pattern, line := info.New(), d.NewFromNextSegment()
	if unmarshaler, ok := pattern.(caddyfile.Unmarshaler); ok {
		if err := unmarshaler.UnmarshalCaddyfile(line); err != nil {
			return err
		}
	} else if line.Next(); line.NextArg() || line.NextBlock(0) {
		return line.ArgErr()
	}
	if h.TextualPatternsRaw == nil {
		h.TextualPatternsRaw = make(caddy.ModuleMap)
	}
	h.TextualPatternsRaw[name] = caddyconfig.JSON(pattern, nil)
	return nil
}

func (h *Handler) loadPatterns(ctx caddy.Context) ([]aggregator.NamedPattern, error) {
	if len(h.TextualPatternsRaw) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(h, "TextualPatternsRaw")
	if err != nil {
		return nil, fmt.Errorf("textual_patterns: %w", err)
	}
	modules := loaded.(map[string]any)
	var patterns []aggregator.NamedPattern
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		pattern, ok := modules[name].(aggregator.Pattern)
		if !ok {
			return nil, fmt.Errorf("textual_patterns: the module %s.%s, a %T, is not an aggregator.Pattern", patternNamespace, name, modules[name])
		}
		patterns = append(patterns, aggregator.NamedPattern{Name: name, Pattern: pattern})
	}
	if err := aggregator.CheckPatterns(patterns); err != nil {
		return nil, fmt.Errorf("textual_patterns: %w", err)
	}
	return patterns, nil
}

// parseStore reads the type of a store. The module of this type reads the rest.
func (h *Handler) parseStore(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	if _, err := caddy.GetModule(storemodules.Namespace + "." + name); err != nil {
		var names []string
		for _, known := range caddy.GetModules(storemodules.Namespace) {
			names = append(names, known.ID.Name())
		}
		return d.Errf("store: %q must be one of %s", name, strings.Join(names, ", "))
	}
	store, err := caddyfile.UnmarshalModule(d, storemodules.Namespace+"."+name)
	if err != nil {
		return err
	}
	h.StoreRaw = caddyconfig.JSONModuleObject(store, "type", name, nil)
	return nil
}

func (h *Handler) completeStore() error {
	fields := make(map[string]json.RawMessage)
	if len(h.StoreRaw) > 0 {
		if err := json.Unmarshal(h.StoreRaw, &fields); err != nil {
			return err
		}
	}
	if fields["type"] == nil {
		fields["type"] = json.RawMessage(`"memory"`)
		h.StoreRaw = caddyconfig.JSON(fields, nil)
	}
	return nil
}

func (h *Handler) loadStore(ctx caddy.Context) error {
	loaded, err := ctx.LoadModule(h, "StoreRaw")
	if err != nil {
		return err
	}
	module, isOurs := loaded.(storemodules.Module)
	if !isOurs {
		return fmt.Errorf("the module %s is no store of this server", loaded.(caddy.Module).CaddyModule().ID)
	}
	h.storeModule = module
	return nil
}
