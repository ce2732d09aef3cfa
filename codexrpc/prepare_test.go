package codexrpc

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type prepared struct {
	mu      sync.Mutex
	threads []*Thread
	calls   int
}

func (p *prepared) ready(thread *Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if thread != nil {
		p.threads = append(p.threads, thread)
	}
}

// A prepared thread runs turns as another does, and each way in which there is none is told once.
func TestPrepareThread(t *testing.T) {
	for name, test := range map[string]struct {
		play    func(p *peer, start heard)
		threads int
	}{
		"started": {func(p *peer, start heard) { p.answer(start, `{"thread":{"id":"thr-1"}}`) }, 1},
		"refused": {func(p *peer, start heard) { p.refuse(start, -32600, "no") }, 0},
		"no id":   {func(p *peer, start heard) { p.answer(start, `{"thread":{}}`) }, 0},
		"ended":   {func(p *peer, _ heard) { close(p.toClient) }, 0},
		"late": {func(p *peer, start heard) {
			p.silent()
			time.Sleep(2 * callTimeout)
			p.answer(start, `{"thread":{"id":"thr-1"}}`)
			p.answer(p.expect(methodThreadUnsubscribe), `{}`)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				var got prepared
				if !c.PrepareThread(`{"model":"m"}`, got.ready) {
					t.Fatal("the call was not written")
				}
				test.play(p, p.expect(methodThreadStart))
				synctest.Wait()
				if got.calls != 1 || len(got.threads) != test.threads {
					t.Fatalf("it was told %d times, of %d threads", got.calls, len(got.threads))
				}
				for _, thread := range got.threads {
					startTurn(t, p, thread, "trn-1")
					p.delta("thr-1", "trn-1", "hello")
					synctest.Wait()
					if got := texts(t, thread); got != "hello" {
						t.Errorf("took %q", got)
					}
				}
			})
		})
	}
}

// A connection that has ended tells it at once, and one that never reads when it ends.
func TestPrepareThreadAtTheEnd(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, _ *peer) {
		var got prepared
		c.PrepareThread("{}", got.ready) // nobody reads it
		_ = c.Close()
		c.PrepareThread("{}", got.ready)
		synctest.Wait()
		if got.calls != 2 || len(got.threads) > 0 {
			t.Errorf("it was told %d times, of %d threads", got.calls, len(got.threads))
		}
	})
}

// No thread is prepared while all slots are taken, and a prepared one gives its slot back.
func TestPrepareThreadTakesNoCallersPlace(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var got prepared
		var starts []heard
		for range cap(c.calls.slots) {
			if !c.PrepareThread("{}", got.ready) {
				t.Fatal("there was no slot")
			}
			starts = append(starts, p.expect(methodThreadStart))
		}
		if c.PrepareThread("{}", got.ready) {
			t.Error("a thread is prepared without a slot")
		}
		for _, start := range starts {
			p.refuse(start, -32600, "no")
		}
		synctest.Wait()
		if got.calls != len(starts) || len(c.calls.slots) != 0 {
			t.Errorf("it was told %d times; %d slots are taken", got.calls, len(c.calls.slots))
		}
	})
}
