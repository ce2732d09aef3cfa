package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestTurnOnTheWire checks a whole turn, from the parameters to the last event.
func TestTurnOnTheWire(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var thread *Thread
		done := async(func() (err error) {
			thread, err = c.StartThread(t.Context(), ThreadStartParams{
				Model: "gpt-5", Cwd: "/workspace", Ephemeral: true, ExperimentalRawEvents: true,
				Environments: []struct{}{},
				DynamicTools: []DynamicTool{{Type: "function", Name: "find", InputSchema: json.RawMessage(`{}`)}},
			})
			if err != nil {
				return err
			}
			if err := thread.InjectItems(t.Context(), []json.RawMessage{json.RawMessage(`{"type":"message"}`), json.RawMessage("{\n}")}); err != nil {
				return err
			}
			return thread.StartTurn(t.Context(), TurnStartParams{OutputSchema: []byte(`{"type":"object"}`)})
		})
		for _, step := range []struct{ method, params, result string }{
			{
				methodThreadStart,
				`{"model":"gpt-5","cwd":"/workspace","ephemeral":true,"experimentalRawEvents":true,"environments":[],` +
					`"dynamicTools":[{"type":"function","name":"find","description":"","inputSchema":{}}]}`,
				`{"thread":{"id":"thr-1"}}`,
			},
			{methodThreadInject, `{"threadId":"thr-1","items":[{"type":"message"},{}]}`, `{}`},
			{methodTurnStart, `{"threadId":"thr-1","input":[],"outputSchema":{"type":"object"}}`, `{"turn":{"id":"trn-1"}}`},
		} {
			call := p.expect(step.method)
			if string(call.Params) != step.params {
				t.Errorf("%s got %s\nwant %s", step.method, call.Params, step.params)
			}
			p.answer(call, step.result)
		}
		must.OK(t, <-done)
		if thread.ID() != "thr-1" {
			t.Errorf("the thread is %q", thread.ID())
		}
	})
}

// The notifications of a turn may come before the answer to turn/start.
func TestEventsBeforeTheAnswer(t *testing.T) {
	for _, started := range []bool{true, false} {
		t.Run(fmt.Sprintf("turn_started_%t", started), func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				thread := openThread(t, c, p, "thr-1")
				done := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
				call := p.expect(methodTurnStart)
				if started {
					p.notify(methodTurnStarted, `{"threadId":"thr-1","turn":{"id":"trn-1"}}`)
				}
				p.delta("thr-1", "trn-1", "early")
				p.delta("thr-1", "auto-compact-0", "another turn's")
				if got := texts(t, thread); started && got != "early" || !started && got != "" {
					t.Errorf("before the answer took %q", got)
				}
				drain(thread.Ready())
				p.answer(call, `{"turn":{"id":"trn-1"}}`)
				must.OK(t, <-done)
				if !started {
					<-thread.Ready() // what has waited is announced
					if got := texts(t, thread); got != "early" {
						t.Errorf("after the answer took %q", got)
					}
				}
			})
		})
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// TestReplaysAreDropped checks that injected items, which come back as raw items of
// another turn, are not taken for calls of the model.
func TestReplaysAreDropped(t *testing.T) {
	replay := `{"threadId":"thr-1","turnId":"auto-compact-0","item":{"type":"function_call","id":"fc","call_id":"tool_0_0","name":"find","arguments":"{}"}}`
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		done := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
		call := p.expect(methodTurnStart)
		p.notify(methodRawItemCompleted, replay)
		p.answer(call, `{"turn":{"id":"trn-1"}}`)
		must.OK(t, <-done)
		p.notify(methodRawItemCompleted, replay)
		p.notify(methodRawItemCompleted, strings.Replace(strings.Replace(replay, "auto-compact-0", "trn-1", 1), "tool_0_0", "call-1", 1))
		p.notify(methodRawItemCompleted, `{"threadId":"thr-1","turnId":"trn-1","item":{"type":"message","id":"m"}}`)
		synctest.Wait()
		events, err := thread.Recv()
		if err != nil || len(events) != 1 || events[0].CallID != "call-1" {
			t.Errorf("took %+v (%v)", events, err)
		}
	})
}

// Each of two threads gets its own events, in order, and no others.
func TestEventsReachTheirThreadOnly(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		one, two := openTurn(t, c, p, "thr-1", "trn-1"), openTurn(t, c, p, "thr-2", "trn-2")
		for i := range 3 {
			p.delta("thr-1", "trn-1", fmt.Sprint("a", i))
			p.delta("thr-2", "trn-2", fmt.Sprint("b", i))
			p.delta("thr-2", "trn-1", "a turn of another thread")
		}
		if got := texts(t, one); got != "a0a1a2" {
			t.Errorf("the first took %q", got)
		}
		if got := texts(t, two); got != "b0b1b2" {
			t.Errorf("the second took %q", got)
		}
	})
}

// A thread id that is in use is refused: it would mix up two callers.
func TestThreadIDInUse(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		first := openTurn(t, c, p, "thr-1", "trn-1")
		for _, result := range []string{`{"thread":{"id":"thr-1"}}`, `{"thread":{}}`, `{}`, `null`} {
			done := async(func() error { return errOf(c.StartThread(t.Context(), ThreadStartParams{})) })
			p.answer(p.expect(methodThreadStart), result)
			if err := <-done; err == nil {
				t.Errorf("%s made a thread", result)
			}
		}
		p.delta("thr-1", "trn-1", "mine")
		if got := texts(t, first); got != "mine" {
			t.Errorf("took %q", got)
		}
	})
}

// A thread is unloaded if its caller has left during thread/start, or the call has timed out.
func TestLateThreadIsUnloaded(t *testing.T) {
	for _, want := range []error{context.Canceled, ErrTimeout} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := async(func() error { return errOf(c.StartThread(ctx, ThreadStartParams{})) })
			call := p.expect(methodThreadStart)
			if want == context.Canceled {
				cancel()
			}
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("ended with %v", err)
			}
			p.answer(call, `{"thread":{"id":"thr-late"}}`)
			unload := p.expect(methodThreadUnsubscribe)
			if string(unload.Params) != `{"threadId":"thr-late"}` {
				t.Errorf("unloaded %s", unload.Params)
			}
			p.answer(unload, `{}`)
			if n := c.Threads(); n != 0 {
				t.Errorf("%d threads", n)
			}
		})
	}
}

// TestAbandonedCallsAreBounded checks the bound of the abandoned calls that are kept.
func TestAbandonedCallsAreBounded(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range maxAbandoned + 100 {
			pending := &pendingCall{call: call{onAnswer: new(Thread).register}, outcome: make(chan error, 1)}
			id := c.calls.lastID.Add(1)
			must.OK(t, c.calls.register(id, pending))
			c.calls.abandon(id, pending, true)
		}
		if n := len(c.calls.registered); n > maxAbandoned {
			t.Errorf("%d calls are known", n)
		}
		_, err := c.StartThread(ctx, ThreadStartParams{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		_ = p.Close()
	})
}

// Closing a thread whose turn was refused interrupts nothing. An answer without an id is no turn.
func TestRefusedTurn(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		start := func() <-chan error {
			return async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
		}
		done := start()
		p.answer(p.expect(methodTurnStart), `{"turn":null}`)
		if err := <-done; err == nil {
			t.Error("it was taken for a turn")
		}
		done = start()
		p.refuse(p.expect(methodTurnStart), -32602, "input too large")
		if err, refused := <-done, (*CallError)(nil); !errors.As(err, &refused) || refused.Code != -32602 {
			t.Errorf("ended with %v", err)
		}
		thread.Close(nil)
		p.answer(p.expect(methodThreadUnsubscribe), `{}`)
	})
}

// An item of invalid JSON, which would break the stream, is not sent.
func TestBrokenItemsAreNotSent(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		for _, item := range []string{``, `{`, `{"a":1}}`, `{"a":1},{"b":2}`, "nonsense"} {
			if err := thread.InjectItems(t.Context(), []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(item)}); err == nil {
				t.Errorf("%q was taken", item)
			}
		}
		p.silent()
	})
}

// A turn ends if the model has said nothing in it, and others go on.
func TestFailBeginning(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
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
