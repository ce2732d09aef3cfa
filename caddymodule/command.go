package caddymodule

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/command"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "codex",
		Usage: "<command>",
		Short: "Shows, checks, restarts, and signs in or out the app-servers of the codex handlers, shows who has used them, records requests, spends reset credits, and makes API keys",
		CobraFunc: func(cmd *cobra.Command) {
			command.Group(cmd,
				command.Status(configuredAppServers),
				command.Usage(),
				command.Trace(),
				command.Login(configuredAppServers),
				command.Logout(configuredAppServers),
				command.Restart(),
				command.Credit(),
				command.Check(configuredAppServers, chatOnce),
				command.Key(configuredKeyFiles),
			)
		},
	})
}

// configuredAppServers is a [command.AppServersFunc].
func configuredAppServers(config []byte) (servers []command.AppServer, err error) {
	known := make(map[string]bool)
	repl := caddy.NewReplacer()
	err = eachObject(config, "handler", `"codex"`, func(h *Handler) error {
		if err := h.complete(); err != nil {
			return err
		}
		for _, server := range h.AppServers {
			cfg, err := server.resolve(repl)
			if err != nil {
				return err
			}
			key := pool.Key(cfg)
			if known[key] {
				continue
			}
			known[key] = true
			servers = append(servers, command.AppServer{Config: cfg, IDs: pool.IDs(cfg, max(1, server.Processes))})
		}
		return nil
	})
	return servers, err
}

// maxCheckBody bounds a check's request and answer, in bytes. In practice, they are much smaller.
const maxCheckBody = 1 << 20

// chatOnce is a [command.ChatFunc].
func chatOnce(upstream conversation.Upstream, w http.ResponseWriter, r *http.Request) {
	g := gateway.New(upstream, gateway.Options{
		MaxBody: maxCheckBody, MaxBodyMemory: 4 * maxCheckBody, MaxConcurrent: 1, IdleTimeout: time.Hour, // the context ends before the idle timeout
		Tools:  turn.ToolOptions{OutputMode: turn.ModeJSON, TextualTools: turn.TextualOff, StopAfterTools: turn.StopOff},
		User:   func(*http.Request) string { return "" },
		Logger: slog.New(slog.DiscardHandler),
	})
	g.Serve(gateway.Find("/v1/chat/completions"), w, r)
}

// configuredKeyFiles is a [command.KeyFilesFunc].
func configuredKeyFiles(config []byte) (files []string, err error) {
	repl := caddy.NewReplacer()
	err = eachObject(config, "api_keys_file", "", func(h *Handler) error {
		path, err := h.keyFilePath(repl)
		if err == nil && path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// eachObject calls do for each object with a member in config, a configuration or a part of one. value is the JSON of
// the member; empty: any. do gets those options of the object that a codex handler has.
func eachObject(config json.RawMessage, member, value string, do func(*Handler) error) error {
	var object map[string]json.RawMessage
	var elements []json.RawMessage
	err := json.Unmarshal(config, &object)
	if err != nil && json.Unmarshal(config, &elements) != nil {
		if !json.Valid(config) {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		return nil // for example a string, which has no handlers
	}
	if found := string(object[member]); found != "" && (value == "" || found == value) {
		type options Handler // UnmarshalJSON would refuse the member handler
		h := new(Handler)
		if err := json.Unmarshal(config, (*options)(h)); err != nil {
			return fmt.Errorf("reading a codex handler: %w", err)
		}
		return do(h)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		elements = append(elements, object[name])
	}
	for _, element := range elements {
		if err := eachObject(element, member, value, do); err != nil {
			return err
		}
	}
	return nil
}
