package codexrpc

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestSentAtOnce checks that calls of many goroutines, short and long ones, reach the app-server
// whole, although their buffers are used again.
func TestSentAtOnce(t *testing.T) {
	c, p := dial(t)
	const callers, calls = 24, 40
	go func() {
		for range callers * calls {
			h := p.hear()
			p.answer(h, string(h.Params))
		}
	}()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for n := range calls {
				sent := fmt.Sprintf("%d %d %s", caller, n, strings.Repeat("x", (caller*calls+n)*7919%(16<<10)))
				if got, err := Call[string](t.Context(), c, "echo", sent); err != nil || got != sent {
					t.Errorf("sent %.40q, the app-server has read %.40q (%v)", sent, got, err)
					return
				}
			}
		})
	}
	group.Wait()
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
