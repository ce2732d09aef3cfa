package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/ports"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// server is a process that is measured: the floor or a Caddy.
type server struct {
	name string
	form *form // in which it is asked
	addr string
	vars string // URL of its expvar page
	pid  int
	stop func() error
}

func startFloor(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := ports.Free()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, roleFloor, addr)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{name: isFloor, form: chatForm, addr: addr, vars: "http://" + addr + "/debug/vars", pid: cmd.Process.Pid, stop: func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
		return nil
	}}
	if err := rig.WaitReady(ctx, "http://"+addr); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", isFloor, err), s.stop())
	}
	return s, nil
}

// barePath is where a server answers with nothing, in Caddy without this module.
const barePath = "/bare"

func startCaddy(ctx context.Context, program, name, double, home, handler string) (*server, error) {
	site, err := rig.StartSite(ctx, program, rig.SiteOptions{
		Command: double, Home: home, Handler: "max_concurrent 20000\n" + handler, Site: "handle " + barePath + " {\nrespond 200\n}",
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &server{name: name, form: chatForm, addr: strings.TrimPrefix(site.URL, "http://"), vars: site.Admin + "/debug/vars", pid: site.PID, stop: site.Stop}, nil
}

// cpu returns the CPU time of the server alone, without the processes below it.
func (s *server) cpu() time.Duration { return rig.CPU(s.pid) }

// memory returns the server's resident memory in bytes.
func (s *server) memory() int { return rig.Memory(s.pid) << 10 }

func (s *server) allocations(ctx context.Context) (uint64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.vars, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var vars struct {
		MemStats struct{ Mallocs uint64 } `json:"memstats"`
	}
	err = json.NewDecoder(response.Body).Decode(&vars)
	return vars.MemStats.Mallocs, err
}

// spending is what a server has spent under a load.
type spending struct {
	took, cpu time.Duration
	objects   float64 // allocated
}

// spend runs a load and returns what the server has spent meanwhile.
func (s *server) spend(ctx context.Context, load func() error) (spending, error) {
	before, err := s.allocations(ctx)
	if err != nil {
		return spending{}, err
	}
	start, used := time.Now(), s.cpu()
	err = load()
	spent := spending{took: time.Since(start), cpu: s.cpu() - used}
	after, failed := s.allocations(ctx)
	spent.objects = float64(after - before)
	return spent, errors.Join(err, failed)
}
