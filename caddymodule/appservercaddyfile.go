package caddymodule

import "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

// parseAppServer reads an app-server; each one of its own adds to the pool.
func (h *Handler) parseAppServer(d *caddyfile.Dispenser) error {
	server := &AppServer{Command: d.RemainingArgs()}
	h.AppServers = append(h.AppServers, server)
	if err := parseBlock(d, server.directives()); err != nil {
		return err
	}
	if err := server.conflict(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// directives are the options of an app_server block.
func (a *AppServer) directives() map[string]option {
	return map[string]option{
		"command":       {parse: a.parseCommand},
		"connect":       {parse: wordOption(&a.Connect)},
		"token":         {parse: a.parseToken},
		"processes":     {parse: countOption(&a.Processes)},
		"home":          {parse: wordOption(&a.Home)},
		"dir":           {parse: wordOption(&a.Dir)},
		"env":           {parse: a.parseEnv, repeats: true},
		"start_timeout": {parse: durationOption(&a.StartTimeout)},
		"stop_timeout":  {parse: durationOption(&a.StopTimeout)},
		"max_memory":    {parse: a.parseMaxMemory},
	}
}

func (a *AppServer) parseToken(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 1 {
		return d.Err("token takes one token") // not ArgErr, which may show it
	}
	a.Token = args[0]
	return nil
}

func (a *AppServer) parseMaxMemory(d *caddyfile.Dispenser) error {
	arg, err := word(d)
	if err != nil {
		return err
	}
	if arg == "off" {
		a.MaxMemory = -1
		return nil
	}
	return parseSize(d, arg, &a.MaxMemory)
}

func (a *AppServer) parseCommand(d *caddyfile.Dispenser) error {
	if len(a.Command) > 0 {
		return d.Err("the command is given twice: beside app_server and in its block")
	}
	if a.Command = d.RemainingArgs(); len(a.Command) == 0 {
		return d.ArgErr()
	}
	return nil
}

func (a *AppServer) parseEnv(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Err("env takes a name and a value") // not ArgErr, which may show the value
	}
	if _, twice := a.Env[args[0]]; twice {
		return d.Errf("env %s is given twice", args[0])
	}
	if a.Env == nil {
		a.Env = make(map[string]string)
	}
	a.Env[args[0]] = args[1]
	return nil
}
