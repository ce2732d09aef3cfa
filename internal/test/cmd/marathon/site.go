package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/marathon"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// site is a model and one or two gateways before it.
type site struct {
	model *rig.Model
	nodes []*rig.Site
	opts  rig.SiteOptions
	front *marathon.Front
	redis *redisserver.Server
	log   *os.File
}

// session runs a session of a client with a site of its own.
func session(ctx context.Context, o options, name string) (report marathon.Report, err error) {
	dir, err := os.MkdirTemp("", "caddy-codex-marathon-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	s, err := newSite(ctx, o, dir)
	defer s.close()
	if err != nil {
		return report, err
	}
	home, work := filepath.Join(dir, "client"), filepath.Join(dir, "work")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(work, 0o700)); err != nil {
		return report, err
	}
	client, err := marathon.Open(name, marathon.Place{
		URL: s.front.URL, Dir: work, Home: home, Window: o.Window, Codex: o.codexClient, Clients: o.sdks, WebSockets: o.webSockets,
	})
	if err != nil {
		return report, err
	}
	o.Model, o.Front, o.Dir, o.Trouble = s.model.Server, s.front, work, s.trouble()
	if o.verbose {
		o.Log = func(line string) { fmt.Printf("%s %s: %s\n", time.Now().Format(time.TimeOnly), name, line) }
	}
	return marathon.Run(ctx, client, o.Options), client.Close()
}

// newSite starts a site, which is to be closed also after an error.
func newSite(ctx context.Context, o options, dir string) (s *site, err error) {
	s = new(site)
	if s.model, err = rig.NewPlan(o.Codex, o.webSockets); err != nil {
		return s, err
	}
	if err := marathon.SetWindow(s.model.Plan, s.model.Server, o.Window); err != nil {
		return s, err
	}
	if s.log, err = os.OpenFile(cmp.Or(o.log, os.DevNull), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return s, err
	}
	data := filepath.Join(dir, "data")
	s.opts = rig.SiteOptions{
		Command: o.Codex, Home: s.model.Home, Log: s.log, Handler: "realm marathon\n",
		Env: []string{"HOME=" + data, "XDG_DATA_HOME=" + data, "XDG_CONFIG_HOME=" + data},
	}
	if o.nodes > 1 {
		if err := os.Mkdir(filepath.Join(dir, "redis"), 0o700); err != nil {
			return s, err
		}
		if s.redis, err = redisserver.Open(filepath.Join(dir, "redis")); err != nil {
			return s, err
		}
		s.opts.Handler += "store redis " + s.redis.URL("") + "\n"
	}
	for range o.nodes {
		node, err := rig.StartSite(ctx, o.Caddy, s.opts)
		if err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, node)
	}
	s.front, err = marathon.NewFront(s.nodes[0].URL)
	return s, err
}

func (s *site) close() {
	if s.front != nil {
		s.front.Close()
	}
	for _, node := range s.nodes {
		_ = node.Stop() // fails if it has exited
	}
	if s.redis != nil {
		s.redis.Kill()
	}
	if s.model != nil {
		s.model.Close()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
}

// trouble returns what is done to the site during a session.
func (s *site) trouble() []marathon.Trouble {
	trouble := []marathon.Trouble{
		{Name: "a reload", Make: func(ctx context.Context) error {
			s.opts.AppServer = "env GENERATION 1"
			return s.nodes[0].Reload(ctx, s.opts)
		}},
		{Name: "a kill of the app-server", Make: func(ctx context.Context) error {
			for _, pid := range rig.Below(s.nodes[0].PID) {
				if rig.Name(pid) == "codex" && slices.Contains(rig.Command(pid), "app-server") {
					_ = syscall.Kill(pid, syscall.SIGKILL) // fails if it has exited
				}
			}
			return rig.WaitReady(ctx, s.nodes[0].URL)
		}},
	}
	if len(s.nodes) > 1 {
		trouble = append(trouble, marathon.Trouble{Name: "a change of the node", Make: func(context.Context) error {
			return s.front.Switch(s.nodes[1].URL)
		}})
	}
	return trouble
}
