package codexrpc

import "testing"

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
