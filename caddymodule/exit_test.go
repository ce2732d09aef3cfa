package caddymodule

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Running requests notice the exit soon, and a caller of now immediately. Without requests
// Caddy is not polled.
func TestExitWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var exiting atomic.Bool
		var asked atomic.Int64
		w := newExitWatch(func() bool {
			asked.Add(1)
			return exiting.Load()
		})
		w.hold()
		w.hold()
		time.Sleep(10 * exitLag)
		w.release()
		time.Sleep(10 * exitLag)
		if w.begun.Err() != nil || w.now() {
			t.Fatal("the exit begins by itself")
		}
		w.release()
		synctest.Wait()
		before := asked.Load()
		time.Sleep(time.Hour)
		if n := asked.Load(); n != before {
			t.Errorf("it was asked %d times for nobody", n-before)
		}
		w.hold()
		exiting.Store(true)
		start := time.Now()
		<-w.begun.Done()
		if lag := time.Since(start); lag > exitLag {
			t.Errorf("it was noticed after %s", lag)
		}
		w.release()
		w.hold() // a late one
		w.release()
	})
	w := newExitWatch(func() bool { return true })
	if !w.now() || w.begun.Err() == nil {
		t.Error("whoever asks is not told")
	}
}

// TestExitEvent checks that the event of a configuration that stops is enough to detect the
// exit, and that it is none by itself.
func TestExitEvent(t *testing.T) {
	var exiting bool
	defer func(before *exitWatch) { exit = before }(exit)
	exit = newExitWatch(func() bool { return exiting })
	stop := func() {
		t.Helper()
		e, err := caddy.NewEvent(caddy.Context{}, "stopping", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(App).Handle(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	stop()
	if exit.begun.Err() != nil {
		t.Error("a reload counts as the exit")
	}
	exiting = true
	stop()
	if exit.begun.Err() == nil {
		t.Error("the exit was not detected")
	}
}
