package codexrpc

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestFailBeginning checks that a turn ends if the model has said nothing in it, and that others
// go on.
func TestFailBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		heard := openTurn(t, c, p, "thr-heard", "trn-heard")
		p.notify(methodItemStarted, `{"threadId":"thr-heard","turnId":"trn-heard","item":{"type":"reasoning","id":"rs-1"}}`)
		bare := openTurn(t, c, p, "thr-bare", "trn-bare")
		p.notify("item/agentMessage/delta", `{"threadId":"thr-bare","turnId":"trn-bare","itemId":"msg-1","delta":"Hi"}`)
		idle := openThread(t, c, p, "thr-idle")
		other := openTurn(t, c, p, "thr-other", "trn-other")
		fresh := openTurn(t, c, p, "thr-fresh", "trn-fresh")
		p.notify(methodItemStarted, `{"threadId":"thr-fresh","turnId":"trn-fresh","item":{"type":"userMessage","id":"msg-1"}}`)
		synctest.Wait()
		limited := errors.New("limited")
		for _, id := range []string{"thr-heard", "thr-bare", "thr-idle", "thr-fresh", "thr-none"} {
			c.FailBeginning(id, limited)
		}
		for name, th := range map[string]*Thread{"heard": heard, "bare": bare, "idle": idle, "other": other} {
			for {
				events, err := th.Recv()
				if err != nil {
					t.Errorf("the %s thread: %v", name, err)
				}
				if len(events) == 0 {
					break
				}
			}
		}
		if events, err := fresh.Recv(); len(events) != 1 || err != nil {
			t.Errorf("%v, %v", events, err)
		}
		if _, err := fresh.Recv(); !errors.Is(err, limited) {
			t.Errorf("the beginning turn ends with %v", err)
		}
	})
}
