package codexrpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestNextTurn checks that a thread takes another turn after one that has completed,
// and that late events of the first do not reach the second.
func TestNextTurn(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		if err := thread.NextTurn(); !errors.Is(err, errUnfinished) {
			t.Errorf("a turn that runs: %v", err)
		}
		p.delta("thr-1", "trn-1", "never taken")
		p.completed("thr-1", "trn-1", StatusCompleted)
		<-thread.Ended()
		if err := thread.NextTurn(); err != nil || thread.Completed() {
			t.Fatalf("%v, completed: %t", err, thread.Completed())
		}
		p.delta("thr-1", "trn-1", "late")
		p.completed("thr-1", "trn-1", StatusCompleted)
		startTurn(t, p, thread, "trn-2")
		p.delta("thr-1", "trn-2", "new")
		synctest.Wait()
		if events, err := thread.Recv(); err != nil || len(events) != 1 || events[0].Text != "new" {
			t.Errorf("took %+v, %v", events, err)
		}
		p.completed("thr-1", "trn-2", StatusInterrupted)
		<-thread.Ended()
		if err := thread.NextTurn(); !errors.Is(err, errUnfinished) {
			t.Errorf("after an interrupted turn: %v", err)
		}
	})
}

// No event of any earlier turn reaches a turn whose id is not known yet, not even the end of one.
func TestEventsOfEarlierTurns(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		for _, next := range []string{"trn-2", "trn-3"} {
			p.completed("thr-1", thread.currentTurnID(), StatusCompleted)
			<-thread.Ended()
			must.OK(t, thread.NextTurn())
			done := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
			start := p.expect(methodTurnStart)
			p.delta("thr-1", "trn-1", "late")
			p.completed("thr-1", "trn-1", StatusFailed)
			p.answer(start, `{"turn":{"id":"`+next+`"}}`)
			must.OK(t, <-done)
			synctest.Wait()
			if events, err := thread.Recv(); len(events) > 0 || err != nil || thread.currentTurnID() != next {
				t.Errorf("turn %s is %q and took %+v, %v", next, thread.currentTurnID(), events, err)
			}
		}
		p.completed("thr-1", "trn-3", StatusCompleted)
		<-thread.Ended()
	})
}

const parkedCallOf = `{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1","turnId":"trn-1","callId":"%s","tool":"find","arguments":{}}}`

// The results of all calls of a burst reach it, whenever its requests come.
func TestAnswerCalls(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		p.say(parkedCallOf, 7, "a")
		p.say(`{"method":"item/started","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"dynamicToolCall","id":"a"}}}`)
		synctest.Wait()
		done := async(func() error { return thread.Parked(t.Context(), []string{"a", "b"}) })
		p.silent()
		p.say(parkedCallOf, 8, "b")
		must.OK(t, <-done)
		for _, other := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "c"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if thread.Parked(ctx, other) == nil {
				t.Errorf("taken for %q", other)
			}
			cancel()
		}
		steered := async(func() error { return thread.Steer(t.Context(), []UserInput{{Type: "text", Text: "And?"}}) })
		steer := p.expect(methodTurnSteer)
		if want := `{"threadId":"thr-1","expectedTurnId":"trn-1","input":[{"type":"text","text":"And?","text_elements":[]}]}`; string(steer.Params) != want {
			t.Errorf("steered with %s", steer.Params)
		}
		p.answer(steer, `{}`)
		must.OK(t, <-steered)
		answered := async(func() error {
			return thread.AnswerCalls(t.Context(), []ToolResult{
				{CallID: "b", Parts: []UserInput{{Type: "text"}, {Type: "image", URL: "data:image/png;base64,AA=="}}},
				{CallID: "a", Parts: []UserInput{{Type: "text", Text: "<&>"}}},
			})
		})
		for _, want := range []string{
			`8 {"contentItems":[{"type":"inputText","text":""},{"type":"inputImage","imageUrl":"data:image/png;base64,AA=="}],"success":true}`,
			`7 {"contentItems":[{"type":"inputText","text":"<&>"}],"success":true}`,
		} {
			if h := p.hear(); string(h.ID)+" "+string(h.Result) != want {
				t.Errorf("answered %s %s, want %s", h.ID, h.Result, want)
			}
		}
		must.OK(t, <-answered)
		p.delta("thr-1", "trn-1", "after")
		synctest.Wait()
		if events, err := thread.Recv(); err != nil || len(events) != 1 || events[0].Text != "after" {
			t.Errorf("took %+v, %v", events, err)
		}
		if err := thread.AnswerCalls(t.Context(), []ToolResult{{CallID: "a"}}); !errors.Is(err, errOtherCalls) {
			t.Errorf("answered twice: %v", err)
		}
	})
}

// TestTurnThatWentOn checks that a turn which goes on without the results of its calls is
// not resumed: what it has written would be missing in the answer.
func TestTurnThatWentOn(t *testing.T) {
	const item = `{"method":"%s","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"%s","id":"m","text":"x"}}}`
	for name, say := range map[string]func(p *peer){
		"a delta":   func(p *peer) { p.delta("thr-1", "trn-1", "x") },
		"a message": func(p *peer) { p.say(item, methodItemStarted, ItemAgentMessage) },
		"its whole": func(p *peer) { p.say(item, methodItemCompleted, ItemAgentMessage) },
		"reasoning": func(p *peer) { p.say(item, methodItemStarted, ItemReasoning) },
	} {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				thread := openTurn(t, c, p, "thr-1", "trn-1")
				p.say(parkedCallOf, 7, "a")
				say(p)
				synctest.Wait()
				if err := thread.AnswerCalls(t.Context(), []ToolResult{{CallID: "a"}}); !errors.Is(err, errContinued) {
					t.Errorf("resumed: %v", err)
				}
			})
		})
	}
}

// Parked does not wait for calls of a turn that has ended.
func TestParkedAfterTheEnd(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		done := async(func() error { return thread.Parked(t.Context(), []string{"a"}) })
		p.silent()
		p.completed("thr-1", "trn-1", StatusFailed)
		if err := <-done; !errors.Is(err, errOtherCalls) {
			t.Errorf("ended with %v", err)
		}
		if thread.Completed() {
			t.Error("a failed turn has completed")
		}
	})
}
