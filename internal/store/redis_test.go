package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// checkUnavailable checks that each use of a store that does not work says so.
func checkUnavailable(t *testing.T, what string, e Engine, limit time.Duration) {
	t.Helper()
	for use, run := range map[string]func(ctx context.Context) error{
		"put":    func(ctx context.Context) error { return e.Put(ctx, "u", id(1), entry("", "x")) },
		"read":   func(ctx context.Context) error { _, err := get(ctx, e, "u", id(1)); return err },
		"delete": func(ctx context.Context) error { return e.Delete(ctx, "u", id(1), Whole) },
		"remove": func(ctx context.Context) error { return e.Delete(ctx, "u", id(1), 0) },
		"items": func(ctx context.Context) error {
			_, err := e.Append(ctx, "u", id(1), &Append{Part: Items, Owner: "token"})
			return err
		},
		"events": func(ctx context.Context) error { _, err := e.Append(ctx, "u", id(1), added("o", 0)); return err },
		"cancel": func(ctx context.Context) error {
			_, err := e.Append(ctx, "u", id(1), &Append{Part: Events, Cancel: true})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := run(ctx)
		cancel()
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
			t.Errorf("%s, %s: %v", what, use, err)
		}
	}
}

// TestRedisFails checks that a server that was killed, hangs, is full or speaks another language
// is an error of its own, and that everything is there again afterwards.
func TestRedisFails(t *testing.T) {
	server := redisserver.Start(t)
	r := openRedis(t, server.Addr, false)
	must.OK(t, r.Put(t.Context(), "u", id(1), entry("", "kept")))
	back := func(what string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = get(ctx, r, "u", id(1))
			if cancel(); err == nil {
				return
			}
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

	must.OK(t, r.Put(t.Context(), "u", id(4), begun("o")))
	server.Do("CONFIG SET maxmemory 1mb")
	_ = r.Put(t.Context(), "u", id(2), entry("", strings.Repeat("x", 2<<20))) // it may begin below the limit
	if err := r.Put(t.Context(), "u", id(3), entry("", "x")); !errors.Is(err, ErrUnavailable) {
		t.Error("it is full, but:", err)
	}
	if _, err := r.Append(t.Context(), "u", id(4), added("o", 0, "a")); !errors.Is(err, ErrUnavailable) {
		t.Error("it is full, but continued:", err)
	}
	back("full")
	server.Do("CONFIG SET maxmemory 0")
	server.Do("FLUSHALL")
	if _, err := get(t.Context(), r, "u", id(1)); !errors.Is(err, ErrNotFound) {
		t.Error("it was emptied, but:", err)
	}
}

// TestLeaseOverAnOutage checks that a response whose lease ends in an outage has not failed for the
// nodes that read it before its owner can continue it.
func TestLeaseOverAnOutage(t *testing.T) {
	server := redisserver.Start(t)
	owner, other := openRedis(t, server.Addr, false), openRedis(t, server.Addr, false)
	begin := begun("o")
	begin.Lease = time.Millisecond
	must.OK(t, owner.Put(t.Context(), "u", id(1), begin))
	time.Sleep(20 * time.Millisecond)
	other.Pause()
	other.state.Store(down)
	must.OK(t, other.Start())
	for deadline := time.Now().Add(10 * time.Second); other.Fails() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if page, _ := read(t, other, id(1), Events, 0); !page.Leased {
		t.Error("after the outage: no lease")
	}
	if _, err := owner.Append(t.Context(), "u", id(1), added("o", 0, "a")); err != nil {
		t.Error(err)
	}
}

// TestNotRedis checks answers of a server that is no Redis.
func TestNotRedis(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "*-1\r\n", "$5\r\nhello\r\n", "*99999999\r\n", "-WRONGPASS no\r\n", ""} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
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

// TestModified checks that what somebody has modified in Redis is an error for uses of this entry
// alone.
func TestModified(t *testing.T) {
	r, ctx := openRedis(t, redisserver.Start(t).Addr, false), t.Context()
	base := r.prefix + ":{" + tagOf("u") + "}:"
	for _, command := range [][]any{
		{"SET", base + "v:" + id(1), "x"}, {"SET", base + "i:" + id(1), "x"}, {"DEL", base + "i:" + id(1)}, {"HDEL", base + "i:" + id(1), "0"},
		{"HDEL", base + "v:" + id(1), "0"}, {"HDEL", base + "v:" + id(1), "bytes"}, {"SET", base + "e:" + id(1), "x"},
	} {
		if err := r.Put(ctx, "u", id(0), entry(id(1), "zero")); err != nil {
			t.Fatal(command, err)
		}
		if err := r.Put(ctx, "u", id(1), entry("", "one")); err != nil {
			t.Fatal(command, err)
		}
		r.client.Do(ctx, command...)
		for _, part := range []Part{Value, Items, Events} {
			for _, from := range []string{id(0), id(1)} {
				if _, err := r.Read(ctx, "u", from, Query{Part: part, Limit: MaxEntry, Links: 9}); err != nil && (from == id(0) || !errors.Is(err, ErrNotFound)) {
					t.Errorf("%s: %s of %s: %v", command, part, from, err)
				}
			}
		}
		if err := r.Put(ctx, "u", id(2), entry("", "two")); err != nil {
			t.Errorf("%s: another entry is not stored: %v", command, err)
		}
		if err := r.Delete(ctx, "u", id(1), Whole); err != nil {
			t.Errorf("%s: it is not deleted: %v", command, err)
		}
	}
}

// TestAnswerLost checks that items are added once if a call is made again.
func TestAnswerLost(t *testing.T) {
	r := openRedis(t, redisserver.Start(t).Addr, false)
	putAll(t, r, 0, 1)
	for _, token := range []string{"token-1", "token-1", "token-2", "token-1"} {
		if _, err := r.Append(t.Context(), "u", id(0), &Append{Part: Items, Owner: token, Records: [][]byte{[]byte(token)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, text := read(t, r, id(0), Items, 0); text != "x token-1 token-2" {
		t.Error(text)
	}
}

// TestPause checks that a paused store works, and starts again.
func TestPause(t *testing.T) {
	r := openRedis(t, redisserver.Start(t).Addr, false)
	for range 3 {
		r.Pause()
		putAll(t, r, 0, 1)
		must.OK(t, r.Start())
	}
}

// TestSettleAtTheExit checks that a turn that ended while Redis was killed is settled when the store
// is not used any more, if Redis works by then.
func TestSettleAtTheExit(t *testing.T) {
	server := redisserver.Start(t)
	r, ctx := openRedis(t, server.Addr, false), t.Context()
	k := limitedKey(t, "k", quota.Tokens, 10_000)
	request, err := r.Limits().Begin(k)
	must.OK(t, err)
	grants, err := request.Acquire(1)
	must.OK(t, err)
	must.OK(t, request.Reserve(ctx, grants, 100))
	server.Kill()
	grants[0].Close(20)
	server.Restart()
	r.Pause()
	if states := r.Limits().States(ctx, []*quota.Key{k}); len(states[0]) != 1 || states[0][0].Used != 20 {
		t.Errorf("%+v", states)
	}
}
