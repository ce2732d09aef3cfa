package codexrpc

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
)

// TestForkOnTheWire checks the messages of a fork and of its turn, which takes the
// environment of the host away.
func TestForkOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		done := async(func() error {
			thread, err := c.ForkThread(t.Context(), "/tmp/session.jsonl", "key-1", ThreadStartParams{
				Model: "gpt-5", Cwd: "/workspace", Sandbox: "read-only", ApprovalPolicy: "never", BaseInstructions: new("Be brief."),
				ExperimentalRawEvents: true, Environments: []struct{}{}, Config: Config{Own: map[string]any{"a": 1}},
			})
			if err != nil {
				return err
			}
			if !thread.Fork() {
				t.Error("it is no fork")
			}
			return thread.StartTurn(t.Context(), TurnStartParams{})
		})
		for _, step := range []struct{ method, params, result string }{
			{
				methodThreadFork,
				`{"model":"gpt-5","baseInstructions":"Be brief.","cwd":"/workspace","approvalPolicy":"never","sandbox":"read-only",` +
					`"ephemeral":true,"config":{"a":1},"threadId":"","path":"/tmp/session.jsonl","excludeTurns":true}`,
				`{"thread":{"id":"thr-1","forkedFromId":"key-1","ephemeral":true}}`,
			},
			{methodTurnStart, `{"threadId":"thr-1","input":[],"environments":[]}`, `{"turn":{"id":"trn-1"}}`},
		} {
			call := p.expect(step.method)
			if string(call.Params) != step.params {
				t.Errorf("%s got %s\nwant %s", step.method, call.Params, step.params)
			}
			p.answer(call, step.result)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoForks checks that an app-server that refuses forks, or makes other threads, is
// not asked for forks again, and that such a thread is unloaded.
func TestNoForks(t *testing.T) {
	for name, answer := range map[string]string{
		"refused":           "",
		"of another thread": `{"thread":{"id":"thr-1","forkedFromId":"key-2","ephemeral":true}}`,
		"stored":            `{"thread":{"id":"thr-1","forkedFromId":"key-1","ephemeral":false}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := dial(t)
				fork := func() error {
					_, err := c.ForkThread(t.Context(), "/tmp/session.jsonl", "key-1", ThreadStartParams{})
					return err
				}
				done := async(fork)
				call := p.expect(methodThreadFork)
				if answer == "" {
					p.refuse(call, -32601, "unknown method")
				} else {
					p.answer(call, answer)
					gone := p.expect(methodThreadUnsubscribe)
					if id := gjson.GetBytes(gone.Params, "threadId").Str; id != "thr-1" {
						t.Errorf("unloaded %q", id)
					}
					p.answer(gone, `{}`)
				}
				if err := <-done; err == nil {
					t.Error("it was forked")
				}
				if err := fork(); !errors.Is(err, errNoForks) {
					t.Errorf("asked again: %v", err)
				}
			})
		})
	}
}

// TestForks checks that only a release whose forks are known is asked for them.
func TestForks(t *testing.T) {
	for version, want := range map[string]bool{"0.169.0": true, "0.169.7": true, "0.168.0": false, "0.170.0": false, "1.169.0": false, "unknown": false, "": false} {
		if got := Forks(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
