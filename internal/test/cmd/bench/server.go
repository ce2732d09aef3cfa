package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// server is a process that is measured: the floor or a Caddy.
type server struct {
	name string
	addr string
	vars string // URL of its expvar page
	pid  int
	stop func() error
}

// exitWait bounds the exit of a server.
const exitWait = 10 * time.Second

// startFloor starts the floor.
func startFloor(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, roleFloor, addr)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{name: "floor", addr: addr, vars: "http://" + addr + "/debug/vars", pid: cmd.Process.Pid, stop: func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
		return nil
	}}
	return s, s.ready(ctx)
}

// startCaddy starts a Caddy in front of an app-server, with options for it and for the
// handler.
func startCaddy(ctx context.Context, program, name, command, home, options string) (*server, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n}\nhttp://%s {\n\tcodex {\n\t\tapp_server %q app-server {\n\t\t\thome %q\n\t\t}\n\t\t%s\n\t}\n}\n", admin, addr, command, home, options)
	caddy, err := rig.Start(program, config, nil)
	if err != nil {
		return nil, err
	}
	s := &server{name: name, addr: addr, vars: "http://" + admin + "/debug/vars", pid: caddy.PID, stop: func() error { return caddy.Stop(exitWait) }}
	return s, s.ready(ctx)
}

// ready waits until the server is ready, and stops it if that fails.
func (s *server) ready(ctx context.Context) error {
	err := rig.WaitReady(ctx, "http://"+s.addr)
	if err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", s.name, err), s.stop())
	}
	return err
}

// cpu returns the CPU time of a process, to the nanosecond.
func cpu(pid int) time.Duration {
	var t unix.Timespec
	// The clock of another process, as clock_getcpuclockid makes its number.
	const scheduled = 2
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0 // it has exited
	}
	return time.Duration(t.Nano())
}

// cpu returns the CPU time of the server alone, without the processes below it.
func (s *server) cpu() time.Duration { return cpu(s.pid) }

// memory returns the server's resident memory in bytes.
func (s *server) memory() int { return rig.Memory(s.pid, rig.Resident) << 10 }

// allocations returns how many objects the server has allocated.
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
