package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-codex/caddy-codex/internal/command"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "codex",
		Usage: "<command>",
		Short: "Shows, checks and signs in the app-servers of the codex handlers, and makes API keys",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(
				command.Status(configuredAppServers),
				command.Login(configuredAppServers),
				command.Check(configuredAppServers),
				command.Key(configuredKeyFiles),
			)
		},
	})
}

// configuredAppServers returns the app-servers of all codex handlers in a configuration,
// each once, in the order of the configuration.
func configuredAppServers(config []byte) ([]command.AppServer, error) {
	var tree any
	if err := json.Unmarshal(config, &tree); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	var servers []command.AppServer
	known := make(map[string]bool)
	repl := caddy.NewReplacer()
	err := eachHandler(tree, func(h *Handler) error {
		if err := h.complete(); err != nil {
			return err
		}
		for _, server := range h.AppServers {
			cfg := server.resolve(repl)
			key, err := processKey(cfg)
			if err != nil {
				return err
			}
			if !known[key] {
				known[key] = true
				one := command.AppServer{Config: cfg}
				for ordinal := range max(1, server.Processes) {
					one.IDs = append(one.IDs, processID(processOf(key, ordinal)))
				}
				servers = append(servers, one)
			}
		}
		return nil
	})
	return servers, err
}

// eachHandler calls do with each codex handler in a part of a configuration.
func eachHandler(part any, do func(*Handler) error) error {
	switch part := part.(type) {
	case []any:
		for _, element := range part {
			if err := eachHandler(element, do); err != nil {
				return err
			}
		}
	case map[string]any:
		if part["handler"] == "codex" {
			return asHandler(part, do)
		}
		for _, name := range slices.Sorted(maps.Keys(part)) {
			if err := eachHandler(part[name], do); err != nil {
				return err
			}
		}
	}
	return nil
}

// asHandler calls do with the handler that a part of a configuration is.
func asHandler(part map[string]any, do func(*Handler) error) error {
	encoded, err := json.Marshal(part)
	if err != nil {
		return err
	}
	h := new(Handler)
	if err := json.Unmarshal(encoded, h); err != nil {
		return fmt.Errorf("reading a codex handler: %w", err)
	}
	return do(h)
}
