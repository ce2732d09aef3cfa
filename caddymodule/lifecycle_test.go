package caddymodule

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

type registered struct {
	handlers int
	memory   bool // a handler uses the store in memory
}

func nowRegistered() registered {
	memory := new(storemodules.Memory)
	_ = memory.Provision(caddy.Context{}) // sets the defaults
	open := func() *objects.Store {
		opened, _, release := storemodules.Open(memory, slog.New(slog.DiscardHandler))
		defer release()
		return opened.Store
	}
	// If no handler uses the store, opening it again makes another one.
	first, second := open(), open()
	return registered{len(handlersInUse.all()), first == second}
}

// TestReloadsLeaveNothing: repeated loads of a configuration leave nothing behind.
func TestReloadsLeaveNothing(t *testing.T) {
	full := fakeHandler(t, t.Name())
	full.APIKeysFile = writeKeys(t, map[string]string{"reloaded": "requests 5 1h"})
	full.APIKeys, full.CORS = []APIKey{{Key: "k", User: "ann"}}, []string{"*"}
	full.Models, full.ImageFetch = []prompt.Alias{{ID: "reloaded", Model: "plain"}}, true
	other := fakeHandler(t, t.Name())
	other.StoreRaw = caddyconfig.JSONModuleObject(storemodules.Disk{Dir: t.TempDir()}, "type", "disk", nil)
	config := site(t, anyPort, full, other)
	pid(t, load(t, config))
	before, goroutines := nowRegistered(), runtime.NumGoroutine()
	if before != (registered{2, true}) {
		t.Errorf("%+v", before)
	}
	for range 50 {
		must.OK(t, caddy.Load(config, true))
	}
	if now := nowRegistered(); now != before {
		t.Errorf("%+v became %+v", before, now)
	}
	// Caddy has some that come and go.
	must.Happen(t, "no goroutines were left", func() bool { return runtime.NumGoroutine() < goroutines+20 })
	must.OK(t, caddy.Stop())
	if now := nowRegistered(); now != (registered{}) {
		t.Errorf("left at the end: %+v", now)
	}
}

// A configuration that fails to provision, or is dropped before it starts, leaves nothing behind.
func TestRefusedLeavesNothing(t *testing.T) {
	before := nowRegistered()
	for _, config := range []string{
		`{"usage":"theirs"}`, `{"api_keys":[{"key":""}]}`, `{"cors":["x"]}`, `{"app_servers":[{},{}]}`, `{"api_keys_file":"/no/such/file"}`,
		`{"models":[{"id":"refused"},{"id":"refused"}]}`,
	} {
		_ = refused(t, config)
		if now := nowRegistered(); now != before {
			t.Errorf("%s: %+v became %+v", config, before, now)
		}
	}
	h := fakeHandler(t, t.Name())
	h.Models = []prompt.Alias{{ID: "dropped"}}
	c := provision(t, h)
	c.cleanup()
	if now := nowRegistered(); now != before || modelLabels.labelOf("dropped") != otherModel {
		t.Errorf("%+v became %+v; its model is labelled %s", before, now, modelLabels.labelOf("dropped"))
	}
	h.Models[0].ID = "started"
	provision(t, h).start(t)
	if got := modelLabels.labelOf("started"); got != "started" {
		t.Errorf("the model is labelled %s", got)
	}
}

// A handler releases its references once, and one that was never provisioned releases nothing.
func TestCleanups(t *testing.T) {
	c := provision(t, fakeHandler(t, t.Name()), fakeHandler(t, t.Name()))
	one := c.handlers[0]
	before := nowRegistered()
	for range 3 {
		if err := one.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	if now := nowRegistered(); !now.memory || now.handlers != before.handlers-1 {
		t.Errorf("%+v became %+v", before, now)
	}
	// So that Caddy's own cleanup has something to let go of.
	_, _, release := storemodules.Open(one.storeModule, c.ctx.Slogger())
	one.releases = append(one.releases, release)
	if err := new(Handler).Cleanup(); err != nil {
		t.Error(err)
	}
	if err := new(App).Cleanup(); err != nil {
		t.Error(err)
	}
	c.cleanup()
	if now := nowRegistered(); now != (registered{}) {
		t.Errorf("left at the end: %+v", now)
	}
}
