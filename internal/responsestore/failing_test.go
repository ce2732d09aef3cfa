package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// checkUnavailable checks that each use of a store that does not work says so.
func checkUnavailable(t *testing.T, what string, b stores.Background, limit time.Duration) {
	t.Helper()
	for use, run := range map[string]func(ctx context.Context) error{
		"put": func(ctx context.Context) error { return b.Put(ctx, id(1), entry("u", "", "x")) },
		"get": func(ctx context.Context) error { _, err := b.Get(ctx, "u", id(1)); return err },
		"chain": func(ctx context.Context) error {
			_, err := NewReader(b, "u", 1<<20, always).Chain(ctx, id(1))
			return err
		},
		"delete": func(ctx context.Context) error { return b.Delete(ctx, "u", id(1)) },
		"append": func(ctx context.Context) error {
			return b.Append(ctx, "u", conversationID(1), []json.RawMessage{[]byte("1")})
		},
		"remove":   func(ctx context.Context) error { return b.RemoveItem(ctx, "u", conversationID(1), []byte("1")) },
		"object":   func(ctx context.Context) error { return b.SetObject(ctx, "u", conversationID(1), []byte("{}")) },
		"begin":    func(ctx context.Context) error { return b.Begin(ctx, id(2), begun("u")) },
		"continue": func(ctx context.Context) error { _, err := b.Continue(ctx, "u", id(1), stores.Events{}); return err },
		"cancel":   func(ctx context.Context) error { return b.Cancel(ctx, "u", id(1)) },
		"events":   func(ctx context.Context) error { _, err := b.Events(ctx, "u", id(1), 0, 1<<20); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := run(ctx)
		cancel()
		if !errors.Is(err, stores.ErrUnavailable) || errors.Is(err, stores.ErrNotFound) {
			t.Errorf("%s, %s: %v", what, use, err)
		}
	}
}

// TestRedisFails checks that a server that was killed, hangs, is full or speaks another language
// is an error of its own, and that everything is there again afterwards.
func TestRedisFails(t *testing.T) {
	server := redisserver.Start(t)
	r := openRedis(t, server.Addr, false)
	if err := r.Put(t.Context(), id(1), entry("u", "", "kept")); err != nil {
		t.Fatal(err)
	}
	back := func(what string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			var e *stores.Entry
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if e, err = r.Get(ctx, "u", id(1)); err == nil {
				cancel()
				e.Release()
				return
			}
			cancel()
		}
		t.Errorf("%s: %v", what, err)
	}
	server.Pause()
	checkUnavailable(t, "paused", r, 100*time.Millisecond)
	server.Resume()
	back("resumed")
	server.Kill()
	checkUnavailable(t, "killed", r, time.Second)
	server.Restart()
	back("restarted")

	if err := r.Begin(t.Context(), id(4), begun("u")); err != nil {
		t.Fatal(err)
	}
	server.Do("CONFIG SET maxmemory 1mb")
	_ = r.Put(t.Context(), id(2), entry("u", "", strings.Repeat("x", 2<<20))) // it may begin below the limit
	if err := r.Put(t.Context(), id(3), entry("u", "", "x")); !errors.Is(err, stores.ErrUnavailable) {
		t.Error("it is full, but:", err)
	}
	if _, err := r.Continue(t.Context(), "u", id(4), stores.Events{Events: []stores.Event{{Name: "a"}}}); !errors.Is(err, stores.ErrUnavailable) {
		t.Error("it is full, but continued:", err)
	}
	back("full")
	server.Do("CONFIG SET maxmemory 0")
	server.Do("FLUSHALL")
	if _, err := r.Get(t.Context(), "u", id(1)); !errors.Is(err, stores.ErrNotFound) {
		t.Error("it was emptied, but:", err)
	}
}

// TestLeaseOverAnOutage checks that a response whose lease ends in an outage has not failed for the
// nodes that read it before its owner can continue it.
func TestLeaseOverAnOutage(t *testing.T) {
	server := redisserver.Start(t)
	owner, other := openRedis(t, server.Addr, false), openRedis(t, server.Addr, false)
	owner.leaseTime = time.Millisecond
	if err := owner.Begin(t.Context(), id(1), begun("u")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	other.Pause()
	other.state.Store(down)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); other.Fails() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	e, err := other.Get(t.Context(), "u", id(1))
	if err != nil || !e.Running {
		t.Fatalf("after the outage: %+v, %v", e, err)
	}
	e.Release()
	if events, err := other.Events(t.Context(), "u", id(1), 0, 1<<20); err != nil || events.Over {
		t.Errorf("after the outage: %+v, %v", events, err)
	}
	if _, err := owner.Continue(t.Context(), "u", id(1), stores.Events{Events: []stores.Event{{Name: "a"}}}); err != nil {
		t.Error(err)
	}
}

// TestNotRedis checks answers of a server that is no Redis.
func TestNotRedis(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "*-1\r\n", "$5\r\nhello\r\n", "*99999999\r\n", "-WRONGPASS no\r\n", ""} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(strings.Repeat(answer, 3)))
				_ = conn.Close()
			}
		}()
		r := openRedis(t, listener.Addr().String(), false)
		checkUnavailable(t, answer, r, 200*time.Millisecond)
		_ = r.Close()
		_ = listener.Close()
		<-done
	}
}

// TestModified checks that an entry that somebody has modified in Redis does not exist for users.
func TestModified(t *testing.T) {
	server := redisserver.Start(t)
	r := openRedis(t, server.Addr, false)
	for field, value := range map[string]string{
		"response": "{", "input": `["x`, "o1": "[", "o2": "{", "n": "9", "running": "1",
	} {
		if err := r.Put(t.Context(), id(1), entry("u", "", "one")); err != nil {
			t.Fatal(err)
		}
		r.client.HSet(t.Context(), r.prefix+":{"+tagOf("u")+"}:r:"+id(1), field, value)
		e, err := r.Get(t.Context(), "u", id(1))
		if err == nil && (field == "response" || field == "o1" || field == "o2") {
			t.Errorf("%s: %+v", field, e)
		}
		_, _ = NewReader(r, "u", 1<<20, always).Chain(t.Context(), id(1))
		_ = r.Delete(t.Context(), "u", id(1))
	}
}

// TestPause checks that a paused store works, and starts again.
func TestPause(t *testing.T) {
	r := openRedis(t, redisserver.Start(t).Addr, false)
	for range 3 {
		r.Pause()
		putAll(t, r, 0, 1)
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSettleAtTheExit checks that a turn that ended while Redis was killed is settled when the store
// is not used any more, if Redis works by then.
func TestSettleAtTheExit(t *testing.T) {
	server := redisserver.Start(t)
	r, ctx := openRedis(t, server.Addr, false), t.Context()
	window, err := quota.ParseWindow("1h")
	if err != nil {
		t.Fatal(err)
	}
	k := &quota.Key{Account: "k", Limits: []quota.Limit{{Unit: quota.Tokens, Max: 10_000, Window: window}}}
	request, err := r.Limits().Begin(k)
	if err != nil {
		t.Fatal(err)
	}
	grants, err := request.Acquire(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Reserve(ctx, grants, 100); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	grants[0].Close(20)
	server.Restart()
	r.Pause()
	if states := r.Limits().States(ctx, []*quota.Key{k}); len(states[0]) != 1 || states[0][0].Used != 20 {
		t.Errorf("%+v", states)
	}
}
