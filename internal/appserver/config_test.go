package appserver

import (
	"testing"
	"time"
)

func TestDefaultTimeouts(t *testing.T) {
	if cfg := New(Config{StartTimeout: -1}, nil).cfg; cfg.StartTimeout != 10*time.Second || cfg.StopTimeout != 5*time.Second {
		t.Errorf("got %+v", cfg)
	}
	if cfg := New(Config{StartTimeout: 1, StopTimeout: 2}, nil).cfg; cfg.StartTimeout != 1 || cfg.StopTimeout != 2 {
		t.Errorf("got %+v", cfg)
	}
}
