package codexrpc

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("CODEX_HOME", "/inherited")
	t.Setenv("CODEXRPC_INHERITED", "yes")
	cfg := ProcessConfig{Env: map[string]string{"B": "2", "A": "1=1"}}
	env := cfg.environ()
	if tail := env[len(env)-2:]; !slices.Equal(tail, []string{"A=1=1", "B=2"}) {
		t.Errorf("added %q", tail)
	}
	if !slices.Contains(env, "CODEX_HOME=/inherited") || !slices.Contains(env, "CODEXRPC_INHERITED=yes") {
		t.Error("the environment is not passed on")
	}
	cfg.Home = "/own"
	if env := cfg.environ(); env[len(env)-1] != "CODEX_HOME=/own" {
		t.Errorf("the last is %q", env[len(env)-1])
	}
}

func TestDefaultTimeouts(t *testing.T) {
	cfg := ProcessConfig{}.withDefaults()
	if cfg.StartTimeout != defaultStartTimeout || cfg.StopTimeout != defaultStopTimeout {
		t.Errorf("got %+v", cfg)
	}
	own := ProcessConfig{StartTimeout: 1, StopTimeout: 2}
	if got := own.withDefaults(); got.StartTimeout != 1 || got.StopTimeout != 2 {
		t.Errorf("got %+v", got)
	}
}
