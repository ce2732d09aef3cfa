package codexrpc

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailBeginning checks that of all turns only those end that are beginning: the first of a
// thread that was just started, of which the model has said nothing.
func TestFailBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		old := openTurn(t, c, p, "thr-old", "trn-old")
		time.Sleep(beginning)
		heard := openTurn(t, c, p, "thr-heard", "trn-heard")
		p.notify(methodItemStarted, `{"threadId":"thr-heard","turnId":"trn-heard","item":{"type":"reasoning","id":"rs-1"}}`)
		idle := openThread(t, c, p, "thr-idle")
		fresh := openTurn(t, c, p, "thr-fresh", "trn-fresh")
		p.notify(methodItemStarted, `{"threadId":"thr-fresh","turnId":"trn-fresh","item":{"type":"userMessage","id":"msg-1"}}`)
		synctest.Wait()
		limited := errors.New("limited")
		c.FailBeginning(limited)
		for name, th := range map[string]*Thread{"old": old, "heard": heard, "idle": idle} {
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
