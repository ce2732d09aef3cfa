//go:build unix

package appserver

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestHomeOfHungProcess checks that the home of an app-server that hangs and is killed is removed.
func TestHomeOfHungProcess(t *testing.T) {
	p := newTestProcess(t, "", func(cfg *Config) { cfg.Home = t.TempDir() })
	p.times.heartbeat = codexrpc.Heartbeat{Every: 50 * time.Millisecond, Wait: time.Second, MaxMissed: 2}
	p.Start()
	before := awaitState(t, p, StateReady)
	if err := syscall.Kill(before.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, p, "started again", func(s Status) bool { return s.Restarts > 0 && s.State == StateReady })
	if homes, err := filepath.Glob(filepath.Join(p.private.Load().path, "home-*")); len(homes) != 1 || err != nil {
		t.Errorf("there are the homes %q, %v", homes, err)
	}
}
