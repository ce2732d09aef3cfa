package objects

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// hungStorage does not answer for the first block of events until it is let go.
type hungStorage struct {
	certmagic.Storage
	letGo chan struct{}
	calls sync.WaitGroup
}

func (s *hungStorage) Store(ctx context.Context, key string, value []byte) error {
	s.calls.Add(1)
	defer s.calls.Done()
	if strings.HasSuffix(key, ".0.events") {
		<-s.letGo
	}
	return s.Storage.Store(ctx, key, value)
}

// TestClaimWhileEventsHang checks that a node keeps its claim to a response while the storage
// does not take its events, and that all of them are stored in the end.
func TestClaimWhileEventsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &hungStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}, letGo: make(chan struct{})}
		nodes := responsestore.NewShared(storage, responsestore.Limits{MaxAge: time.Hour, MaxCount: 10}, slog.New(slog.DiscardHandler))
		defer nodes.Close()
		o := &Objects{Store: nodes, Running: NewRunning(), Logger: slog.New(slog.DiscardHandler)}
		id := responseid.Prefix + responseid.NewSuffix(time.Now())
		log := eventlog.New(eventLimits).Open("u", id)
		say := func(data string) {
			if err := log.Append("event", []byte(data)); err != nil {
				t.Error(err)
			}
		}
		say("one")
		if err := o.Claim(t.Context(), Response{
			ID: id, Entry: &responsestore.Entry{User: "u"}, InProgress: func() json.RawMessage { return json.RawMessage(`{"id":"r"}`) },
		}); err != nil {
			t.Fatal(err)
		}
		unclaim := o.KeepClaim(id, log, func(error) {})
		for range 20 {
			time.Sleep(5 * time.Second)
			say("more")
			if claimed, err := nodes.Claimed(t.Context(), id); !claimed || err != nil {
				t.Fatalf("the claim is lost: %v", err)
			}
		}
		close(storage.letGo)
		log.End()
		unclaim()
		storage.calls.Wait() // also those for which nobody waits
		stored := &storedEvents{o: o, ctx: t.Context(), id: id}
		n := 0
		for !stored.over {
			if err := stored.read(); err != nil {
				t.Fatal(err)
			}
			n = len(stored.events)
		}
		if n != 21 || string(stored.events[0].Data) != "one" {
			t.Errorf("%d events: %v", n, stored.events)
		}
	})
}
