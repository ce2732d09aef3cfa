package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// listModels makes a call without parameters in the background.
func listModels(ctx context.Context, c *Conn) <-chan error {
	return async(func() error { return errOf(c.Models(ctx)) })
}

// TestCallsInFlightAreCapped checks that the 65th call is not sent before one of the
// 64 is answered: the app-server loses requests when too many wait.
func TestCallsInFlightAreCapped(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var done []<-chan error
		for range maxInFlight + 1 {
			done = append(done, listModels(t.Context(), c))
		}
		var calls []heard
		for range maxInFlight {
			calls = append(calls, p.expect(methodModelList))
		}
		p.silent()
		p.answer(calls[0], `{"data":[]}`)
		calls = append(calls[1:], p.expect(methodModelList))
		for _, call := range calls {
			p.answer(call, `{"data":[]}`)
		}
		for _, d := range done {
			must.OK(t, <-d)
		}
	})
}

// TestAbandonedCallsKeepTheirPlace checks that an abandoned call keeps its slot until
// it is answered or has timed out: the app-server still works on it.
func TestAbandonedCallsKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, log := dialLogged(t)
		ctx, cancel := context.WithCancel(t.Context())
		var calls []heard
		for range maxInFlight {
			done := listModels(ctx, c)
			calls = append(calls, p.expect(methodModelList))
			defer func() { <-done }()
		}
		cancel()
		waiting := listModels(t.Context(), c)
		p.silent()
		p.answer(calls[0], `{"data":[]}`)
		p.answer(p.expect(methodModelList), `{"data":[]}`)
		must.OK(t, <-waiting)
		time.Sleep(callTimeout) // the others are never answered
		last := listModels(t.Context(), c)
		p.answer(p.expect(methodModelList), `{"data":[]}`)
		must.OK(t, <-last)
		synctest.Wait()
		if got := log.String(); got != "" { // the late answer is that of a call
			t.Errorf("logged %s", got)
		}
		if n := len(c.calls.registered); n != 0 {
			t.Errorf("%d calls are still known", n)
		}
	})
}

func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, log := dialLogged(t)
		begin := time.Now()
		done := listModels(t.Context(), c)
		call := p.expect(methodModelList)
		err := <-done
		if !errors.Is(err, ErrTimeout) || time.Since(begin) != callTimeout {
			t.Errorf("ended with %v after %s", err, time.Since(begin))
		}
		p.answer(call, `{"data":[]}`)
		synctest.Wait()
		if got := log.String(); strings.Count(got, "kind=answer") != 1 {
			t.Errorf("logged %s", got)
		}
		if n := len(c.calls.slots); n != 0 {
			t.Errorf("%d slots are taken", n)
		}
	})
}

// TestTimeoutWithoutASlot checks that waiting for a slot counts for the timeout.
func TestTimeoutWithoutASlot(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var done []<-chan error
		for range maxInFlight + 3 {
			done = append(done, listModels(t.Context(), c))
		}
		for range maxInFlight {
			p.expect(methodModelList)
		}
		for _, d := range done {
			if err := <-d; !errors.Is(err, ErrTimeout) {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

func TestCallEndsWithItsContext(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		reason := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := listModels(ctx, c)
		p.expect(methodModelList)
		cancel(reason)
		if err := <-done; !errors.Is(err, reason) {
			t.Errorf("ended with %v", err)
		}
		if err := c.Err(); err != nil {
			t.Errorf("and so did the connection: %v", err)
		}
	})
}

func TestRefusedCall(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		done := listModels(t.Context(), c)
		p.say(`{"id":%s,"error":{"code":-32602,"message":"too long","data":{"kind":"input_too_large"}}}`, p.hear().ID)
		err := <-done
		var refused *CallError
		if !errors.As(err, &refused) {
			t.Fatalf("ended with %v", err)
		}
		want := CallError{Method: methodModelList, Code: -32602, Message: "too long", Data: json.RawMessage(`{"kind":"input_too_large"}`)}
		if fmt.Sprint(*refused) != fmt.Sprint(want) || errors.Is(err, ErrOverloaded) {
			t.Errorf("got %+v", refused)
		}
		if text := err.Error(); text != "codex model/list: too long (-32602)" {
			t.Errorf("it reads %q", text)
		}
	})
}

// TestAnswerBeforeTheEnd checks that a caller gets an answer that came before the end
// of the connection, in whichever order it notices them.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for range 50 {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			done := listModels(t.Context(), c)
			id := p.hear().ID
			p.say(`{"id":%s,"result":{"data":[]}}`, id)
			close(p.toClient)
			must.OK(t, <-done)
		})
	}
}

// TestAnswers checks that a null error beside a result is ignored, and that a result must have the
// expected shape.
func TestAnswers(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"id":%s,"result":{"data":[]},"error":null}`: true, `{"id":%s,"result":{"data":7}}`: false, `{"id":%s}`: false,
	} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			done := listModels(t.Context(), c)
			p.say(answer, p.hear().ID)
			if err := <-done; (err == nil) != want {
				t.Errorf("%s: %v", answer, err)
			}
		})
	}
}

// TestOverloadIsRetried checks how often a call is tried again, and after which pauses.
func TestOverloadIsRetried(t *testing.T) {
	for _, ends := range []bool{true, false} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			done := listModels(t.Context(), c)
			begin := time.Now()
			for range overloadRetries {
				p.refuse(p.expect(methodModelList), codeOverloaded, "Server overloaded; retry later.")
			}
			if last := p.expect(methodModelList); ends {
				p.answer(last, `{"data":[]}`)
			} else {
				p.refuse(last, codeOverloaded, "Server overloaded; retry later.")
			}
			if err := <-done; ends && err != nil || !ends && !errors.Is(err, ErrOverloaded) {
				t.Errorf("ended with %v", err)
			}
			p.silent()
			// The pauses double, with jitter between a half and one and a half.
			sum := overloadPause * (1<<overloadRetries - 1)
			if took := time.Since(begin); took < sum/2 || took >= sum*3/2 {
				t.Errorf("the pauses took %s, want about %s", took, sum)
			}
		})
	}
}

// The pause before a retry ends with the context and with the connection.
func TestOverloadPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(*Conn, context.CancelFunc){
			"context":    func(_ *Conn, cancel context.CancelFunc) { cancel() },
			"connection": func(c *Conn, _ context.CancelFunc) { _ = c.Close() },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, p := dial(t)
			done := listModels(ctx, c)
			p.refuse(p.hear(), codeOverloaded, "Server overloaded; retry later.")
			synctest.Wait()
			begin := time.Now()
			end(c, cancel)
			if err := <-done; err == nil || time.Since(begin) != 0 {
				t.Errorf("%s: ended with %v after %s", name, err, time.Since(begin))
			}
		}
	})
}

// A call whose context ends before it is written is not sent.
func TestCallThatWasNeverSent(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		first := listModels(t.Context(), c)
		synctest.Wait() // it is being written
		ctx, cancel := context.WithCancel(t.Context())
		second := async(func() error { return thread.StartTurn(ctx, TurnStartParams{}) })
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if thread.isRunning() {
			t.Error("a turn runs that was never asked for")
		}
		p.answer(p.expect(methodModelList), `{}`)
		must.OK(t, <-first)
		p.silent()
		if len(c.calls.slots) != 0 || len(c.calls.registered) != 0 {
			t.Errorf("%d slots and %d calls are left", len(c.calls.slots), len(c.calls.registered))
		}
	})
}

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
