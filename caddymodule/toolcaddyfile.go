package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// directives are the Caddyfile options of tool calls.
func (o *ToolOptions) directives() map[string]option {
	return map[string]option{
		"output_mode":               {parse: oneOf(&o.OutputMode, outputModes)},
		"stop_after_tools":          {parse: o.parseStop},
		"suppress_tail_after_tools": {parse: switchOption(&o.SuppressTailAfterTools)},
		"textual_tools":             {parse: oneOf(&o.TextualTools, textualSets)},
		"tool_block_max":            {parse: o.parseMax},
		"tool_block_dedup":          {parse: flagOption(&o.ToolBlockDedup)},
		"tool_block_delimiter":      {parse: wordOption(&o.ToolBlockDelimiter)},
		"parallel_tool_calls":       {parse: switchOption(&o.ParallelToolCalls)},
		"xml_escape":                {parse: oneOf(&o.XMLEscape, escapings)},
	}
}

// parseStop reads a mode and, of burst alone, a grace.
func (o *ToolOptions) parseStop(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	if err := isOneOf(d, args[0], stopModes); err != nil {
		return err
	}
	o.StopAfterTools = args[0]
	if len(args) == 1 {
		return nil
	}
	if args[0] != "burst" {
		return d.Errf("only burst has a grace, %s has none", args[0])
	}
	return parseDuration(d, args[1], &o.StopAfterToolsGrace)
}

// parseMax reads the limit, of which 0 means none.
func (o *ToolOptions) parseMax(d *caddyfile.Dispenser) error {
	arg, err := word(d)
	if err != nil {
		return err
	}
	if o.ToolBlockMax, err = strconv.Atoi(arg); err != nil || o.ToolBlockMax < 0 {
		return d.Errf("%q is not a number from 0 up", arg)
	}
	return nil
}

// oneOf reads one of the allowed words.
func oneOf(into *string, allowed []string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		arg, err := word(d)
		if err != nil {
			return err
		}
		*into = arg
		return isOneOf(d, arg, allowed)
	}
}

// switchOption reads on or off.
func switchOption(into **bool) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		arg, err := word(d)
		if err != nil {
			return err
		}
		*into = new(arg == "on")
		return isOneOf(d, arg, []string{"on", "off"})
	}
}

// flagOption reads on or off where off is the default.
func flagOption(into *bool) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		var on *bool
		if err := switchOption(&on)(d); err != nil {
			return err
		}
		*into = *on
		return nil
	}
}
