package usage

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func record(user, id string) gateway.Record {
	return gateway.Record{
		Time: time.Unix(100, 0), RequestID: id, User: user, Model: "gpt-5", Mode: turn.ModeXML, Status: 200,
		Usage: codexrpc.Usage{InputTokens: 10, CachedInputTokens: 3, OutputTokens: 5, ReasoningOutputTokens: 2, TotalTokens: 15},
		Tools: turn.Report{
			Started: 3, Flushed: 1, Calls: 2, Truncated: true, Duplicates: 1,
			Aborted: map[aggregator.AbortReason]int{aggregator.AbortNested: 1, aggregator.AbortUnclosed: 1},
		},
	}
}

func TestAccounts(t *testing.T) {
	b := New()
	b.TurnEnded(record("alice", "1"))
	failed := record("alice", "2")
	failed.Status = 502
	b.TurnEnded(failed)
	b.TurnEnded(record("bob", "3"))

	alice := b.Account("alice")
	if alice.Requests != 2 || alice.Errors != 1 || alice.Tokens != (Tokens{20, 10, 30, 6, 4}) {
		t.Errorf("%+v", alice)
	}
	if alice.ToolCalls != (ToolCalls{4, 2, 2}) {
		t.Errorf("%+v", alice.ToolCalls)
	}
	if m := alice.ToolBufferMetrics; m.Started != 6 || m.Flushed != 2 || m.Aborted != 4 || m.ByReason["nested"] != 2 {
		t.Errorf("%+v", m)
	}
	alice.ToolBufferMetrics.ByReason["nested"] = 99
	if b.Account("alice").ToolBufferMetrics.ByReason["nested"] != 2 {
		t.Error("an account shares memory with the book")
	}
	if nobody := b.Account("nobody"); nobody.Requests != 0 || nobody.Object != "usage" {
		t.Errorf("%+v", nobody)
	}
}

func TestRawIsOnesOwn(t *testing.T) {
	b := New()
	for i := range 3 {
		b.TurnEnded(record("alice", fmt.Sprint("a", i)))
		b.TurnEnded(record("bob", fmt.Sprint("b", i)))
	}
	var ids []string
	for _, e := range b.Raw("alice").Data {
		ids = append(ids, e.RequestID)
	}
	if got := strings.Join(ids, " "); got != "a2 a1 a0" {
		t.Errorf("alice sees %s", got)
	}
	text, err := json.Marshal(b.Raw("nobody"))
	if err != nil || !strings.Contains(string(text), `"data":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBounds(t *testing.T) {
	b := New()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range maxUsers {
				r := record(fmt.Sprint("user", worker, "-", i), "id")
				r.Model = strings.Repeat("ü", 10_000)
				b.TurnEnded(r)
			}
		})
	}
	wg.Wait()
	if len(b.accounts) > maxUsers+1 || len(b.entries) != maxEntries {
		t.Errorf("%d accounts, %d entries", len(b.accounts), len(b.entries))
	}
	var requests int64
	for _, a := range b.accounts {
		requests += a.Requests
	}
	if requests != 4*maxUsers {
		t.Errorf("%d requests were counted", requests)
	}
	if name := b.entries[0].Model; len(name) > maxName {
		t.Errorf("a name of %d bytes is kept", len(name))
	}
}
