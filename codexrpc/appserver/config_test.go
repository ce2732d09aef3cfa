package appserver

import "testing"

func TestDefaultTimeouts(t *testing.T) {
	cfg := Config{}.withDefaults()
	if cfg.StartTimeout != defaultStartTimeout || cfg.StopTimeout != defaultStopTimeout {
		t.Errorf("got %+v", cfg)
	}
	own := Config{StartTimeout: 1, StopTimeout: 2}
	if got := own.withDefaults(); got.StartTimeout != 1 || got.StopTimeout != 2 {
		t.Errorf("got %+v", got)
	}
}
