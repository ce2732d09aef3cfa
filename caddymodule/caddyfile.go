package caddymodule

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("codex", parseDirective)
	// Before respond: after authentication, request_body and encode, whose work
	// the handler relies on.
	httpcaddyfile.RegisterDirectiveOrder("codex", httpcaddyfile.Before, "respond")
}

func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	return handler, handler.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile sets the handler up from the directive:
//
//	codex {
//	    app_server <command> [<args>...]
//	    app_server {
//	        command       <command> [<args>...]
//	        connect       ws://<address>|wss://<address>|unix/<path>
//	        token         <bearer>
//	        processes     <n>
//	        home          <dir>
//	        dir           <dir>
//	        env           <key> <value>
//	        start_timeout <duration>
//	        stop_timeout  <duration>
//	        max_memory    <size>|off
//	    }
//	    api_key         <key> [<user>]
//	    max_body        <size>
//	    max_body_memory <size>
//	    max_concurrent  <n>
//	    max_per_user    <n>
//	    max_queue       <n> [<wait>]
//	    idle_timeout    <duration>
//	    keepalive       <duration>|off
//	    response_store  memory [<size> [<age>]]|storage [<age>]|off
//	    drain_timeout   <duration>
//	    cors            <origin>...|off
//	    hosts           <name>...
//	    usage           own|all
//
//	    model        <id> [<codex model> [<effort>]]
//	    image_fetch  on|off
//	    reasoning    on|off
//	    instructions auto|replace|append
//
//	    output_mode               auto|openai-json|obsidian-xml
//	    stop_after_tools          off|first|burst [<grace>]
//	    suppress_tail_after_tools on|off
//	    textual_tools             auto|on|off
//	    tool_block_max            <n>
//	    tool_block_dedup          on|off
//	    tool_block_delimiter      <text>
//	    parallel_tool_calls       on|off
//	    xml_escape                literal|entities
//	}
//
// Every option may be left out, and each but app_server, api_key, env and model
// may be given only once.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return parseBlock(d, h.directives())
}

// directives are the options of the Caddyfile.
func (h *Handler) directives() map[string]option {
	options := map[string]option{
		"app_server":      {parse: h.parseAppServer, repeats: true},
		"api_key":         {parse: h.parseAPIKey, repeats: true},
		"max_body":        {parse: sizeOption(&h.MaxBody)},
		"max_body_memory": {parse: sizeOption(&h.MaxBodyMemory)},
		"max_concurrent":  {parse: countOption(&h.MaxConcurrent)},
		"max_per_user":    {parse: countOption(&h.MaxPerUser)},
		"max_queue":       {parse: h.parseMaxQueue},
		"idle_timeout":    {parse: durationOption(&h.IdleTimeout)},
		"keepalive":       {parse: h.parseKeepalive},
		"response_store":  {parse: h.ResponseStore.parse},
		"drain_timeout":   {parse: durationOption(&h.DrainTimeout)},
		"cors":            {parse: h.parseCORS},
		"hosts":           {parse: h.parseHosts},
		"usage":           {parse: oneOf(&h.Usage, usageScopes)},
	}
	maps.Copy(options, h.ToolOptions.directives())
	maps.Copy(options, h.ModelOptions.directives())
	return options
}

func (h *Handler) parseAPIKey(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		// Not ArgErr, which shows the last argument: it may be the key.
		return d.Err("api_key takes a key and, if wanted, a user")
	}
	key := APIKey{Key: args[0]}
	if len(args) == 2 {
		key.User = args[1]
	}
	h.APIKeys = append(h.APIKeys, key)
	return nil
}

// parseMaxQueue reads a number, of which 0 means that nobody waits, and a wait.
func (h *Handler) parseMaxQueue(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return d.ArgErr()
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return d.Errf("%q is not a number from 0 up", args[0])
	}
	h.MaxQueue = &n
	switch {
	case len(args) == 1:
		return nil
	case n == 0:
		return d.Err("nobody waits in a queue of 0, so it has no wait")
	}
	return parseDuration(d, args[1], &h.MaxQueueWait)
}

func (h *Handler) parseKeepalive(d *caddyfile.Dispenser) error {
	arg, err := word(d)
	if err != nil {
		return err
	}
	if arg == "off" {
		h.Keepalive = -1
		return nil
	}
	return parseDuration(d, arg, &h.Keepalive)
}

func (h *Handler) parseCORS(d *caddyfile.Dispenser) error {
	origins := d.RemainingArgs()
	switch {
	case len(origins) == 0:
		return d.ArgErr()
	case !slices.Contains(origins, "off"):
		h.CORS = origins
	case len(origins) > 1:
		return d.Err("off stands alone")
	}
	return nil
}

// option is how one line of a block is read.
type option struct {
	parse   func(*caddyfile.Dispenser) error
	repeats bool
}

// parseBlock reads a block of options. Unknown ones and ones given twice are
// errors with file and line.
func parseBlock(d *caddyfile.Dispenser, options map[string]option) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		o, ok := options[name]
		if !ok {
			// What follows a = is not shown: it may be a key.
			before, _, found := strings.Cut(name, "=")
			if found {
				return d.Errf("unknown option %q; a value follows after a space, without =", before)
			}
			return d.Errf("unknown option %q", name)
		}
		if seen[name] && !o.repeats {
			return d.Errf("%s is given twice", name)
		}
		seen[name] = true
		if err := o.parse(d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// isOneOf refuses a word that is not allowed.
func isOneOf(d *caddyfile.Dispenser, word string, allowed []string) error {
	if !slices.Contains(allowed, word) {
		return d.Errf("%q must be one of %s", word, strings.Join(allowed, ", "))
	}
	return nil
}

// word reads the one argument of an option.
func word(d *caddyfile.Dispenser) (string, error) {
	args := d.RemainingArgs()
	if len(args) != 1 {
		return "", d.ArgErr()
	}
	return args[0], nil
}

func wordOption(into *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		*into, err = word(d)
		return err
	}
}

func durationOption(into *caddy.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		arg, err := word(d)
		if err != nil {
			return err
		}
		return parseDuration(d, arg, into)
	}
}

// parseDuration reads a duration, which must be above zero: no timeout here
// may be endless.
func parseDuration(d *caddyfile.Dispenser, arg string, into *caddy.Duration) error {
	value, err := caddy.ParseDuration(arg)
	if err != nil || value <= 0 {
		return d.Errf("%q is not a duration above zero, such as 10s or 5m", arg)
	}
	*into = caddy.Duration(value)
	return nil
}

func countOption(into *int) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		arg, err := word(d)
		if err != nil {
			return err
		}
		value, err := strconv.Atoi(arg)
		if err != nil || value < 1 {
			return d.Errf("%q is not a number above zero", arg)
		}
		*into = value
		return nil
	}
}

func sizeOption(into *int64) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		arg, err := word(d)
		if err != nil {
			return err
		}
		return parseSize(d, arg, into)
	}
}

func parseSize(d *caddyfile.Dispenser, arg string, into *int64) error {
	value, err := humanize.ParseBytes(arg)
	if err != nil || value == 0 || value > math.MaxInt64 {
		return d.Errf("%q is not a size above zero, such as 512KiB or 32MiB", arg)
	}
	*into = int64(value)
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
