package codexrpc

import (
	"testing"
	"testing/synctest"
)

// hastyPeer answers the call with the next id before it is written, and takes nothing at once.
type hastyPeer struct {
	*peer
	hasty func()
}

func (p *hastyPeer) TryWrite([]byte) (written bool, err error) {
	if p.hasty != nil {
		p.hasty()
	}
	return false, nil
}

// TestAnswerBeforeTheCall checks that an answer that comes before its call was written ends
// that call alone: its memory may be another call's by then.
func TestAnswerBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &hastyPeer{peer: newPeer(t)}
		c := NewConn(p, nil)
		thread := openThread(t, c, p.peer, "thr-1")
		other := c.pending()
		p.hasty = func() {
			p.hasty = nil
			p.say(`{"id":%d,"result":{}}`, c.lastID.Load())
			synctest.Wait()
			other = c.pending()
			other.slot = true
			c.slots <- struct{}{}
			if err := c.register(1000, other); err != nil {
				t.Error(err)
			}
		}
		released := closing(thread)
		releasedOnce(t, released)
		if c.calls[1000] != other || !other.slot || len(c.slots) != 1 {
			t.Errorf("%d slots are taken, %+v is registered", len(c.slots), c.calls[1000])
		}
		_ = c.Close()
	})
}
