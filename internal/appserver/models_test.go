package appserver

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestModelsOfAReplaced checks that a request for the models of an app-server fails if that ends
// before it has answered, also if the list of the next one was asked for meanwhile.
func TestModelsOfAReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, doubles := newDoubles(t)
		next, others := newDoubles(t)
		doubles.mute = map[string]bool{"model/list": true}
		others.mute = doubles.mute
		p.Start()
		next.Start()
		old, fresh := conn(t, p), conn(t, next)
		failed := make(chan error, 1)
		go func() {
			_, err := p.Models(t.Context(), old)
			failed <- err
		}()
		synctest.Wait()
		p.models.get(fresh)
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
