package caddymodule

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// conflict returns an error if an option cannot be combined with connect, or needs it.
func (a *AppServer) conflict() error {
	if a.Connect == "" {
		if a.Token != "" {
			return errors.New("token is for connect")
		}
		return nil
	}
	if len(a.Command) > 0 {
		return errors.New("either a command is run or connect is used, not both")
	}
	for name, set := range map[string]bool{
		"processes": a.Processes != 0, "home": a.Home != "", "dir": a.Dir != "", "env": len(a.Env) > 0,
		"stop_timeout": a.StopTimeout != 0, "max_memory": a.MaxMemory != 0,
	} {
		if set {
			return fmt.Errorf("%s is for a process that is started here, not for connect", name)
		}
	}
	return nil
}

// validateRemote refuses an address or a token that cannot work. The errors do not contain
// the token.
func (a *AppServer) validateRemote(repl *caddy.Replacer) error {
	if err := a.conflict(); err != nil || a.Connect == "" {
		return err
	}
	address, err := repl.ReplaceOrErr(a.Connect, true, true)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := codexrpc.CheckAddress(address); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if a.Token == "" {
		return nil
	}
	token, err := repl.ReplaceOrErr(a.Token, true, true)
	if err != nil {
		return errors.New("the token has a placeholder that is empty or unknown: is its variable or file set?")
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return errors.New("the token is empty")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token has a character that no header may have")
	}
	return nil
}

// resolveRemote is resolve for an app-server that runs elsewhere.
func (a *AppServer) resolveRemote(repl *caddy.Replacer) appserver.Config {
	return appserver.Config{
		Connect:      repl.ReplaceAll(a.Connect, ""),
		Token:        strings.TrimSpace(repl.ReplaceAll(a.Token, "")),
		StartTimeout: time.Duration(a.StartTimeout),
		Client:       clientInfo(),
	}
}

// isExposed reports whether the token is sent unencrypted over a network.
func isExposed(cfg appserver.Config) bool {
	u, err := url.Parse(cfg.Connect)
	if cfg.Token == "" || err != nil || u.Scheme != "ws" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}
