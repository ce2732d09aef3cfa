package codexrpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestCall(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		type answer struct{ Name string }
		var got answer
		done := async(func() (err error) {
			got, err = Call[answer](t.Context(), c, "some/method", map[string]int{"n": 1})
			return err
		})
		h := p.expect("some/method")
		p.answer(h, `{"name":"x","more":2}`)
		if err := <-done; err != nil || got.Name != "x" || string(h.Params) != `{"n":1}` {
			t.Errorf("%+v, %v, called with %s", got, err, h.Params)
		}
		done = async(func() error { return errOf(Call[answer](t.Context(), c, "some/method", nil)) })
		p.refuse(p.expect("some/method"), -32601, "there is none")
		if refused, ok := errors.AsType[*CallError](<-done); !ok || refused.Code != -32601 {
			t.Errorf("%+v", refused)
		}
	})
}

func TestNotify(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		for params, want := range map[any]string{nil: "", 7: "7"} {
			done := async(func() error { return c.Notify(t.Context(), "some/event", params) })
			h := p.expect("some/event")
			if err := <-done; err != nil || string(h.Params) != want || h.ID != nil {
				t.Errorf("%+v, %v", h, err)
			}
		}
		_ = c.Close()
		if err := c.Notify(t.Context(), "some/event", nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// TestEvents checks that an iteration has all events up to the end of the turn, and that it ends
// with its context, with the connection, or when its caller has enough.
func TestEvents(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		read := func(ctx context.Context, most int) (text string, err error) {
			for e, err := range thread.Events(ctx) {
				if err != nil {
					return text, err
				}
				if text += e.Text; len(text) >= most {
					return text, nil
				}
			}
			return text + ".", nil
		}
		p.delta("thr-1", "trn-1", "a")
		synctest.Wait()
		if text, err := read(t.Context(), 1); text != "a" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if text, err := read(ctx, 9); text != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("%q, %v", text, err)
		}
		done := async(func() error {
			text, err := read(t.Context(), 9)
			if text != "bc." {
				t.Errorf("the rest is %q", text)
			}
			return err
		})
		for _, text := range []string{"b", "c"} {
			p.delta("thr-1", "trn-1", text)
			synctest.Wait()
		}
		p.completed("thr-1", "trn-1", StatusCompleted)
		must.OK(t, <-done)
		thread = openTurn(t, c, p, "thr-2", "trn-2")
		_ = c.Close()
		if text, err := read(t.Context(), 9); text != "" || !errors.Is(err, ErrClosed) {
			t.Errorf("%q, %v", text, err)
		}
	})
}
