package appserver

import (
	"testing"
	"time"
)

func TestDefaultTimeouts(t *testing.T) {
	if cfg := New(Config{}, nil).cfg; cfg.startTimeout != 10*time.Second || cfg.stopTimeout != 5*time.Second {
		t.Errorf("got %+v", cfg)
	}
	if cfg := New(Config{startTimeout: 1, stopTimeout: 2}, nil).cfg; cfg.startTimeout != 1 || cfg.stopTimeout != 2 {
		t.Errorf("got %+v", cfg)
	}
}
