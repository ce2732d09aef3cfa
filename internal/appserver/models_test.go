package appserver

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// A request for the models of an app-server fails if that ends before it has answered.
func TestModelsOfAReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, doubles := newDoubles(t)
		doubles.is = words("mute:model/list")
		p.Start()
		old, err := p.Instance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := old.Models(t.Context())
			failed <- err
		}()
		synctest.Wait()
		doubles.last().kill()
		if err := <-failed; !errors.Is(err, codexrpc.ErrClosed) {
			t.Error("the list of the ended app-server:", err)
		}
	})
}

// TestDefaultOf checks which model requests get that name none.
func TestDefaultOf(t *testing.T) {
	for want, models := range map[string][]codexrpc.Model{
		"bb": {{ID: "x", Model: "x", Hidden: true, IsDefault: true}, {ID: "a", Model: "a"}, {ID: "b", Model: "bb", IsDefault: true}},
		"a":  {{ID: "a", Model: "a"}, {ID: "b", Model: "b"}},
		"":   nil,
	} {
		if got := DefaultOf(models); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
